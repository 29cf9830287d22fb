"""SaslAuthenticate (api key 36), every version."""

from typing import Annotated

from levada.protocol.declare import IGNORABLE, Bytes, Int16, Int64, Request, Since, String, message


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateRequest(Request["SaslAuthenticateResponse"]):
    auth_bytes: Bytes


@message(api_key=36, versions="0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: Int16 = 0
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Annotated[Int64, Since(1), IGNORABLE] = 0
