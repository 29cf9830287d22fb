"""AlterUserScramCredentials (api key 51), every version."""

from levada.protocol.declare import Bytes, Int8, Int16, Int32, Request, String, message, struct


@struct
class ScramCredentialDeletion:
    name: String
    mechanism: Int8


@struct
class ScramCredentialUpsertion:
    name: String
    mechanism: Int8
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]


@struct
class AlterUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult]
