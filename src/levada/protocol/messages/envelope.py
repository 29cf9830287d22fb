"""Envelope (api key 58), every version."""

from levada.protocol.declare import Bytes, Int16, Request, message


@message(api_key=58, versions="0", flexible="0+")
class EnvelopeRequest(Request["EnvelopeResponse"]):
    request_data: Bytes
    request_principal: Bytes | None
    client_host_address: Bytes


@message(api_key=58, versions="0", flexible="0+")
class EnvelopeResponse:
    response_data: Bytes | None = None
    error_code: Int16 = 0
