"""CreateDelegationToken (api key 38), every version."""

from typing import Annotated

from levada.protocol.declare import Bytes, Int16, Int32, Int64, Request, Since, String, message, struct


@struct
class CreatableRenewers:
    principal_type: String
    principal_name: String


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    owner_principal_type: Annotated[String | None, Since(3)] = ""
    owner_principal_name: Annotated[String | None, Since(3)] = ""
    renewers: list[CreatableRenewers]
    max_lifetime_ms: Int64


@message(api_key=38, versions="1-3", flexible="2+")
class CreateDelegationTokenResponse:
    error_code: Int16 = 0
    principal_type: String
    principal_name: String
    token_requester_principal_type: Annotated[String, Since(3)] = ""
    token_requester_principal_name: Annotated[String, Since(3)] = ""
    issue_timestamp_ms: Int64
    expiry_timestamp_ms: Int64
    max_timestamp_ms: Int64
    token_id: String
    hmac: Bytes
    throttle_time_ms: Int32 = 0
