"""One request to a schema registry, bounded in time and size, and what is to be thought of its answer."""

import http.client
import json
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry.address import Registry

REQUEST_S: Final = 10.0
MOST_BYTES: Final = 8 << 20
SHOWN: Final = 300
"""Characters of what a registry says in a message."""
CONTENT: Final = "application/vnd.schemaregistry.v1+json"
PASSING: Final = (408, 425, 429)
"""Statuses below 500 after which the same may work later."""


class RegistryAway(RowsError):
    """It cannot be reached or has trouble of its own: the same may work later."""


class NotThere(RowsError):
    """It has no such subject, version or schema."""


class Unfit(RowsError):
    """It does not take the schema, which does not fit those before it."""


class Invalid(RowsError):
    """It does not take the schema, which is none."""


class Unreadable(RowsError):
    """A schema that is there and is more than can be used."""


class TooLarge(RowsError):
    """An answer beyond what is read."""


def ask(
    registry: Registry, method: str, path: str, content: Mapping[str, Any] | None = None, limit_s: float = REQUEST_S
) -> Any:
    """The answer's JSON; RowsError of one of the kinds above, or one that no later try changes."""
    body = None if content is None else json.dumps(content).encode()
    status, data = _exchange(registry, method, path, body, limit_s)
    if status >= 500 or status in PASSING:
        raise RegistryAway(f"{registry.shown} answers {status}{_said(data)}")
    if status == 401:
        raise RowsError(f"{registry.shown} refuses the login (401): check registry_user and registry_password")
    if status == 403:
        raise RowsError(f"{registry.shown} forbids this user {method} {path} (403): let its operator allow it")
    if 300 <= status < 400:
        raise RowsError(f"{registry.shown} leads elsewhere ({status}): give the address that it leads to")
    answer = _json(data)
    if status == 404 and isinstance(answer, dict) and answer.get("error_code") in (40401, 40402, 40403):
        raise NotThere(f"{registry.shown} says: {_said(data)[2:]}")
    if status == 404 or answer is None:
        # A proxy whose registry is gone answers so as well.
        raise RegistryAway(f"{registry.shown} answers {status} and is no schema registry")
    if status == 409:
        raise Unfit(_said(data)[2:] or str(status))
    if status == 422:
        raise Invalid(f"{registry.shown} does not take the schema{_said(data)}")
    if status >= 400:
        raise RowsError(f"{registry.shown} answers {method} {path} with {status}{_said(data)}")
    return answer


def _exchange(registry: Registry, method: str, path: str, body: bytes | None, limit_s: float) -> tuple[int, bytes]:
    connection = _connection(registry, limit_s)
    headers = {"Accept": f"{CONTENT}, application/json", "Content-Type": CONTENT, "Connection": "close"}
    if registry.user is not None:
        headers["Authorization"] = "Basic " + b64encode(f"{registry.user}:{registry.password}".encode()).decode()
    try:
        connection.connect()
        with _cut_after(connection.sock, limit_s):
            connection.request(method, registry.path + path, body, headers)
            response = connection.getresponse()
            data = response.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise TooLarge(f"{registry.shown} answers {method} {path} with more than {MOST_BYTES >> 20} MiB")
            if response.length:
                raise RegistryAway(f"{registry.shown} ended its answer half-way")
            return response.status, data
    except ssl.SSLCertVerificationError as error:
        said = error.verify_message or "it is not valid"
        raise RowsError(
            f"the certificate of {registry.shown} is not trusted ({said}): name its CA, registry_ca=..."
        ) from None
    except TimeoutError:
        raise RegistryAway(f"{registry.shown} gives no answer within {limit_s:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise RegistryAway(f"{registry.shown} cannot be reached: {_short(reason)}") from None
    finally:
        connection.close()


def _connection(registry: Registry, limit_s: float) -> http.client.HTTPConnection:
    if registry.scheme == "http":
        return http.client.HTTPConnection(registry.host, registry.port, timeout=limit_s)
    try:
        context = ssl.create_default_context(cadata=registry.authorities)
    except ssl.SSLError:
        raise RowsError("registry_ca has no certificate in it: give a file in PEM") from None
    return http.client.HTTPSConnection(registry.host, registry.port, timeout=limit_s, context=context)


@contextmanager
def _cut_after(connected: socket.socket, limit_s: float) -> Iterator[None]:
    """TimeoutError when the time is up, however slowly bytes drip: a socket's own limit begins anew with each."""
    is_late = threading.Event()

    def cut() -> None:
        is_late.set()
        try:
            connected.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It ended in this moment.

    timer = threading.Timer(limit_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if is_late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()
    if is_late.is_set():
        raise TimeoutError


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _said(data: bytes) -> str:
    """What a registry says of an error, behind a colon."""
    answer = _json(data)
    message = answer.get("message") if isinstance(answer, dict) else None
    return f": {_short(message)}" if isinstance(message, str) and message.strip() else ""


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else f"{line[: SHOWN - 3]}..."
