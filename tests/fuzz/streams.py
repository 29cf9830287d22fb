"""Every kind of garbage that a port may see: what is sent, and what must come of it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from levada.broker.handlers import HANDLERS
from levada.broker.route import Route, routes_of
from levada.protocol.api import ApiKey
from levada.protocol.headers import encode_request_header
from tests.fuzz.values import Values
from tests.fuzz.wire import Token, joined, tokens, varint, with_a_huge_length, with_a_null

ROUTES = routes_of(HANDLERS)
SERVED: list[tuple[Route, int]] = [(route, version) for route in ROUTES.values() for version in route.versions]
MAX_FRAME = 104_857_600
HARMLESS = Values(never_changes=True)

READ_ONLY = (
    ApiKey.METADATA,
    ApiKey.FIND_COORDINATOR,
    ApiKey.API_VERSIONS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.LIST_OFFSETS,
)

OTHER_PROTOCOLS = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /topics HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n{",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    bytes.fromhex("16030100c8010000c40303") + bytes(200),
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"*1\r\n$4\r\nPING\r\n",
    b"EHLO localhost\r\n",
    b"PROXY TCP4 10.0.0.1 10.0.0.2 1 9092\r\n",
    b"ruok",
)
"""All of them begin with what Kafka reads as a size above its limit."""


class Outcome(Enum):
    CLOSED = auto()
    """Without a word."""
    ANSWERED = auto()
    """With exactly these bytes, or with a response that has this correlation id."""
    ANY = auto()
    """Answered or closed: that depends on what the broker makes of it."""
    LEFT = auto()
    """The client goes before anything can come of it."""


@dataclass(frozen=True, slots=True)
class Stream:
    kind: str
    chunks: tuple[bytes, ...]
    outcome: Outcome
    answer: bytes = b""
    """How the answer must begin, after its size; a connection may be closed after it."""

    def __str__(self) -> str:
        return f"{self.kind}: {b''.join(self.chunks)[:500].hex()}"

    def cut(self, chance: random.Random) -> "Stream":
        """The same, by a client that leaves in the middle."""
        whole = b"".join(self.chunks)
        return replace(self, chunks=(whole[: chance.randrange(len(whole) + 1)],), outcome=Outcome.LEFT)


def random_stream(chance: random.Random, kind: str) -> Stream:
    chunks, outcome, answer = KINDS[kind](chance)
    return Stream(kind, chunks, outcome, answer)


Made = tuple[tuple[bytes, ...], Outcome, bytes]


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def request(
    route: Route, version: int, body: bytes, *, correlation_id: int = 7, client_id: str | None = "fuzz"
) -> bytes:
    return framed(encode_request_header(route.api_key, version, correlation_id, client_id) + body)


def random_request(chance: random.Random) -> tuple[Route, int, list[Token]]:
    """A request that follows its schema; none that could change the cluster."""
    route, version = chance.choice(SERVED)
    return route, version, tokens(HARMLESS.message(chance, route.message, version), version)


def _closed(*chunks: bytes) -> Made:
    return chunks, Outcome.CLOSED, b""


def _any(*chunks: bytes) -> Made:
    return chunks, Outcome.ANY, b""


def _left(*chunks: bytes) -> Made:
    return chunks, Outcome.LEFT, b""


def _nothing(chance: random.Random) -> Made:
    return _left()


def _random_bytes(chance: random.Random) -> Made:
    return _any(chance.randbytes(chance.randrange(1, 400)))


def _random_frame(chance: random.Random) -> Made:
    return _any(framed(chance.randbytes(chance.randrange(1, 400))))


def _negative_size(chance: random.Random) -> Made:
    size = chance.choice((-1, -2, -(2**31), -chance.randrange(1, 2**31)))
    return _closed(size.to_bytes(4, "big", signed=True) + chance.randbytes(chance.randrange(100)))


def _huge_size(chance: random.Random) -> Made:
    size = chance.choice((2**31 - 1, MAX_FRAME + 1, chance.randrange(MAX_FRAME + 1, 2**31)))
    return _closed(size.to_bytes(4, "big") + chance.randbytes(chance.randrange(100)))


def _half_frame(chance: random.Random) -> Made:
    size = chance.choice((20, 1_000, 60_000, 70_000, 1 << 20, MAX_FRAME))
    whole = size.to_bytes(4, "big") + chance.randbytes(min(size - 1, 100_000))
    return _left(whole[: chance.randrange(1, len(whole))])


def _drip(chance: random.Random) -> Made:
    whole = request(ROUTES[ApiKey.API_VERSIONS], 0, b"")
    return tuple(whole[at : at + 1] for at in range(len(whole))), Outcome.ANSWERED, (7).to_bytes(4, "big")


def _unknown_api(chance: random.Random) -> Made:
    api_key = chance.choice(
        [key for key in (-1, 4, 5, 6, 7, 27, 59, 93, 999, 2**15 - 1, -(2**15)) if key not in ROUTES]
    )
    header = api_key.to_bytes(2, "big", signed=True) + chance.choice((0, 1, 12, 99)).to_bytes(2, "big")
    return _closed(framed(header + bytes(4) + b"\xff\xff" + chance.randbytes(chance.randrange(60))))


def _unknown_version(chance: random.Random) -> Made:
    route = chance.choice([route for route in ROUTES.values() if route.api_key != ApiKey.API_VERSIONS])
    version = chance.choice((-1, route.versions[0] - 1, route.versions[-1] + 1, 99, 2**15 - 1))
    header = route.api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
    return _closed(framed(header + bytes(4) + b"\xff\xff" + chance.randbytes(chance.randrange(60))))


def _unknown_api_versions(chance: random.Random) -> Made:
    route = ROUTES[ApiKey.API_VERSIONS]
    version = chance.choice((-1, route.versions[-1] + 1, 99, 2**15 - 1))
    header = route.api_key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + (7).to_bytes(4, "big")
    served = route.api_key.to_bytes(2, "big") + bytes(2) + route.versions[-1].to_bytes(2, "big")
    whole = framed(header + b"\xff\xff" + chance.randbytes(chance.randrange(20)))
    return (
        (whole,),
        Outcome.ANSWERED,
        (7).to_bytes(4, "big") + (35).to_bytes(2, "big") + (1).to_bytes(4, "big") + served,
    )


def _other_protocol(chance: random.Random) -> Made:
    return _closed(chance.choice(OTHER_PROTOCOLS))


def _short_header(chance: random.Random) -> Made:
    return _closed(framed(chance.randbytes(chance.randrange(10))) + chance.randbytes(4))


def _bad_header(chance: random.Random) -> Made:
    """A client id longer than its frame or not UTF-8, header tags that are cut off or lie."""
    route, version = chance.choice([pair for pair in SERVED if pair[1] >= pair[0].flexible_since])
    start = encode_request_header(route.api_key, version, 7, None)[:8]
    too_long, not_text = b"\x7f\xffabc", b"\x00\x02\xff\xfe\x00"
    tags = b"\xff\xff" + chance.choice((b"\x80", b"\xff" * 6, b"\x01\x00" + varint(10_000), varint(2**31) + b"\0\0"))
    return _closed(framed(start + chance.choice((too_long, not_text, tags))))


def _truncated(chance: random.Random) -> Made:
    while True:
        route, version, pieces = random_request(chance)
        body = joined(pieces)
        if body:
            return _closed(request(route, version, body[: chance.randrange(len(body))]))


def _huge_length(chance: random.Random) -> Made:
    return _lie(chance, with_a_huge_length)


def _forbidden_null(chance: random.Random) -> Made:
    return _lie(chance, with_a_null)


def _lie(chance: random.Random, lie: Callable[[random.Random, list[Token]], bytes | None]) -> Made:
    while True:
        route, version, pieces = random_request(chance)
        body = lie(chance, pieces)
        if body is not None:
            return _closed(request(route, version, body))


def _trailing_bytes(chance: random.Random) -> Made:
    """Ignored, as Apache does."""
    route = ROUTES[chance.choice(READ_ONLY)]
    version = chance.choice(route.versions)
    body = joined(tokens(HARMLESS.message(chance, route.message, version), version))
    whole = request(route, version, body + chance.randbytes(chance.randrange(1, 50)))
    return (whole,), Outcome.ANSWERED, (7).to_bytes(4, "big")


def _answered_then_garbage(chance: random.Random) -> Made:
    """What came before the garbage is answered."""
    good = request(ROUTES[ApiKey.API_VERSIONS], 0, b"")
    return (good + b"\xff" * 20,), Outcome.ANSWERED, (7).to_bytes(4, "big")


def _mutated(chance: random.Random) -> Made:
    route, version, pieces = random_request(chance)
    return _any(mutated(chance, request(route, version, joined(pieces))))


def _followed_schema(chance: random.Random) -> Made:
    """Any values, as long as they decode."""
    route, version, pieces = random_request(chance)
    return _any(request(route, version, joined(pieces)))


def _deaf(chance: random.Random) -> Made:
    """Asks again and again, and never reads."""
    question = request(ROUTES[ApiKey.API_VERSIONS], 0, b"") + request(ROUTES[ApiKey.METADATA], 1, b"\xff\xff\xff\xff")
    return _left(*[question * 20] * chance.randrange(1, 20))


def mutated(chance: random.Random, frame: bytes) -> bytes:
    """A few bytes flipped, cut or put in behind the size, which is right again afterwards most of the time."""
    body = bytearray(frame[4:])
    for _ in range(chance.randrange(1, 4)):
        at = chance.randrange(8, max(len(body), 9))
        how = chance.randrange(4)
        if how == 0 and at < len(body):
            body[at] ^= 1 << chance.randrange(8)
        elif how == 1:
            del body[at : at + chance.choice((1, 2, 4, 8))]
        elif how == 2:
            body[at:at] = chance.randbytes(chance.choice((1, 2, 4, 8)))
        else:
            body[at : at + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", bytes(4)))
    size = len(body) + (chance.choice((0, 0, 0, -1, 1, 4)))
    return max(size, 0).to_bytes(4, "big") + body


KINDS: dict[str, Callable[[random.Random], Made]] = {
    "nothing": _nothing,
    "random bytes": _random_bytes,
    "random frame": _random_frame,
    "negative size": _negative_size,
    "huge size": _huge_size,
    "half frame": _half_frame,
    "drip": _drip,
    "unknown api": _unknown_api,
    "unknown version": _unknown_version,
    "unknown version of ApiVersions": _unknown_api_versions,
    "other protocol": _other_protocol,
    "short header": _short_header,
    "bad header": _bad_header,
    "truncated": _truncated,
    "huge length": _huge_length,
    "forbidden null": _forbidden_null,
    "trailing bytes": _trailing_bytes,
    "answered, then garbage": _answered_then_garbage,
    "mutated": _mutated,
    "any values": _followed_schema,
    "deaf": _deaf,
}
