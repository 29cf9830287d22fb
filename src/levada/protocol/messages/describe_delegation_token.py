"""DescribeDelegationToken (api key 41), every version."""

from typing import Annotated

from levada.protocol.declare import Bytes, Int16, Int32, Int64, Request, Since, String, message, struct


@struct
class DescribeDelegationTokenOwner:
    principal_type: String
    principal_name: String


@message(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    owners: list[DescribeDelegationTokenOwner] | None


@struct
class DescribedDelegationTokenRenewer:
    principal_type: String
    principal_name: String


@struct
class DescribedDelegationToken:
    principal_type: String
    principal_name: String
    token_requester_principal_type: Annotated[String, Since(3)] = ""
    token_requester_principal_name: Annotated[String, Since(3)] = ""
    issue_timestamp: Int64
    expiry_timestamp: Int64
    max_timestamp: Int64
    token_id: String
    hmac: Bytes
    renewers: list[DescribedDelegationTokenRenewer]


@message(api_key=41, versions="1-3", flexible="2+")
class DescribeDelegationTokenResponse:
    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: Int32 = 0
