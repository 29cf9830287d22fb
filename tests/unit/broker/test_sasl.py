"""SASL where no listener has it: refused at any point, with the code that clients know."""

from typing import cast

from levada.broker.handlers import sasl_authenticate, sasl_handshake
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from levada.protocol.messages.sasl_handshake import SaslHandshakeRequest

REQUEST = cast("Request", None)
"""The answer depends on nothing."""


def test_a_handshake_names_no_mechanism() -> None:
    answer = sasl_handshake.handle(SaslHandshakeRequest(mechanism="PLAIN"), REQUEST)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.mechanisms == []


def test_an_authentication_is_refused() -> None:
    answer = sasl_authenticate.handle(SaslAuthenticateRequest(auth_bytes=b"\0ann\0secret"), REQUEST)
    assert answer.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert answer.error_message
    assert answer.auth_bytes == b""
