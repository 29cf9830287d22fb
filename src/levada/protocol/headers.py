"""Request and response headers in all their versions."""

from dataclasses import dataclass
from struct import Struct as Packed
from struct import error as StructError  # noqa: N812 - a class, named as one

from levada.model.buffers import Buffer
from levada.protocol.api import ApiKey, request_class, response_class
from levada.protocol.errors import MalformedMessage
from levada.protocol.runtime import read_uvarint

MAX_HEADER_TAGS = 1_000
"""Clients send one or two; to go past millions of them would hold the event loop."""

_FIXED_PART = Packed(">hhih")


@dataclass(slots=True)
class RequestHeader:
    """Which client asks what, in which version; `body` is where the message begins in its frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: int


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Header v1; `skip_tags` goes past what v2 adds, once the version is known to be served."""
    try:
        api_key, api_version, correlation_id, length = _FIXED_PART.unpack_from(frame, 0)
        body = 10 + max(length, 0)
        if body > len(frame):
            raise MalformedMessage("the client id is longer than its frame")
        # The client id's length keeps its two bytes in every version: a broker reads it before it knows the version.
        client_id = None if length < 0 else str(frame[10:body], "utf-8")
    except StructError as error:
        raise MalformedMessage("the request's header is cut off") from error
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"the client id is no text: {error}") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id, body)


def skip_tags(frame: Buffer, position: int) -> int:
    """The position after a tag buffer that is not read."""
    try:
        count, position = read_uvarint(frame, position)
        if count > MAX_HEADER_TAGS:
            raise MalformedMessage(f"a header with {count} tags")
        for _ in range(count):
            _, position = read_uvarint(frame, position)
            size, position = read_uvarint(frame, position)
            position += size
            if position > len(frame):
                raise MalformedMessage("a header tag is longer than its frame")
    except IndexError as error:
        raise MalformedMessage("the header's tags are cut off") from error
    return position


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    tags = b"\0" if api_version >= request_class(api_key).flexible_since else b""
    return _FIXED_PART.pack(api_key, api_version, correlation_id, length) + name + tags


def response_has_tags(api_key: int, api_version: int) -> bool:
    """Whether the response header is v1."""
    # A client that asks for versions cannot know yet which header the broker would write, so it is always v0.
    return api_key != ApiKey.API_VERSIONS and api_version >= response_class(api_key).flexible_since


def encode_response_header(correlation_id: int, *, has_tags: bool) -> bytes:
    return correlation_id.to_bytes(4, "big", signed=True) + (b"\0" if has_tags else b"")


def decode_response_header(frame: Buffer, *, has_tags: bool) -> tuple[int, int]:
    """The correlation id, and where the message begins."""
    if len(frame) < 4:
        raise MalformedMessage("the response header is cut off")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    return correlation_id, skip_tags(frame, 4) if has_tags else 4
