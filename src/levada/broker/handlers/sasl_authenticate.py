"""SaslAuthenticate v0-2. Refused, as SaslHandshake is."""

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

API = ApiKey.SASL_AUTHENTICATE
VERSIONS = stable_versions(API)

ALREADY = "SaslAuthenticate request received after successful authentication"
"""As Apache says on any listener whose clients it has let in."""


def handle(message: SaslAuthenticateRequest, request: Request) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=ALREADY, auth_bytes=b"")
