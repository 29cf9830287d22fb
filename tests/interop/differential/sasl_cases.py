"""Cases about SASL, to listeners that have none."""

from levada.protocol.api import ApiKey
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.interop.differential.cases import EVERY, Case, Table

TABLES = (
    Table(
        "SaslHandshake",
        ApiKey.SASL_HANDSHAKE,
        [
            Case("known", lambda _: SaslHandshakeRequest(mechanism="PLAIN"), versions=EVERY),
            Case("unheard of", lambda _: SaslHandshakeRequest(mechanism="?")),
        ],
    ),
    Table(
        "SaslAuthenticate",
        ApiKey.SASL_AUTHENTICATE,
        [
            Case("something", lambda _: SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret"), versions=EVERY),
            Case("nothing", lambda _: SaslAuthenticateRequest(auth_bytes=b"")),
        ],
    ),
)
