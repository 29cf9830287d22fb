"""UnregisterBroker (api key 64), every version."""

from levada.protocol.declare import Int16, Int32, Request, String, message


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    broker_id: Int32


@message(api_key=64, versions="0", flexible="0+")
class UnregisterBrokerResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
