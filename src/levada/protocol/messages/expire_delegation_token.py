"""ExpireDelegationToken (api key 40), every version."""

from levada.protocol.declare import Bytes, Int16, Int32, Int64, Request, message


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenRequest(Request["ExpireDelegationTokenResponse"]):
    hmac: Bytes
    expiry_time_period_ms: Int64


@message(api_key=40, versions="1-2", flexible="2+")
class ExpireDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
