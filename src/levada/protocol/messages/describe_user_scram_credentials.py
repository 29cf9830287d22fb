"""DescribeUserScramCredentials (api key 50), every version."""

from levada.protocol.declare import Int8, Int16, Int32, Request, String, message, struct


@struct
class UserName:
    name: String


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    users: list[UserName] | None


@struct
class CredentialInfo:
    mechanism: Int8
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None
    credential_infos: list[CredentialInfo]


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None
    results: list[DescribeUserScramCredentialsResult]
