"""SaslHandshake v0-1. Refused: listeners are plain, and a connected client has nothing to prove."""

from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

API = ApiKey.SASL_HANDSHAKE
VERSIONS = stable_versions(API)


def handle(message: SaslHandshakeRequest, request: Request) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
