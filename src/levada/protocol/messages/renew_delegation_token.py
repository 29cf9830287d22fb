"""RenewDelegationToken (api key 39), every version."""

from levada.protocol.declare import Bytes, Int16, Int32, Int64, Request, message


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenRequest(Request["RenewDelegationTokenResponse"]):
    hmac: Bytes
    renew_period_ms: Int64


@message(api_key=39, versions="1-2", flexible="2+")
class RenewDelegationTokenResponse:
    error_code: Int16 = 0
    expiry_timestamp_ms: Int64
    throttle_time_ms: Int32 = 0
