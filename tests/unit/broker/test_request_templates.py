"""Both kinds of templates, the compiled ones and their pure twins, cut and fill alike, whatever comes in."""

import random
import weakref
from struct import pack
from typing import Any

import pytest

from levada.broker import _request_templates as compiled_templates
from levada.broker import pure_request_templates as pure_templates
from levada.protocol.runtime import uvarint

TWINS = pytest.mark.parametrize("twin", [compiled_templates, pure_templates], ids=["compiled", "pure"])

TOPIC_AT, BEHIND_NAME = 15, 6
TAIL = b"\0\1\0"
EXTREMES = (0, -1, 1, 2**63 - 1, -(2**63), 0x0123456789ABCDEF)


def request(client_id: bytes, topic: bytes, rest: bytes, *, correlation_id: int = 7) -> memoryview:
    """As `TOPIC_AT` and `BEHIND_NAME` have it: five bytes before the topic's length, five behind its name."""
    head = pack(">hhih", 1, 12, correlation_id, len(client_id)) + client_id + b"fives"
    return memoryview(head + bytes((len(topic) + 1,)) + topic + b"zeros" + rest)


def by_name(twin: Any, *, is_flexible: bool = True, tail: bytes = TAIL) -> Any:
    return twin.RequestTemplate(TOPIC_AT, BEHIND_NAME - 1, True, is_flexible, tail)


def prefix(frame: memoryview, rest: bytes) -> bytes:
    return bytes(frame[8 : len(frame) - len(rest)])


@TWINS
@pytest.mark.parametrize("offset", EXTREMES)
def test_a_fetch_is_known_by_all_but_its_offset(twin: Any, offset: int) -> None:
    rest = pack(">q", offset) + b"behind"
    frame = request(b"me", b"orders", rest, correlation_id=99)
    known = {prefix(frame, rest) + b"behind": "found"}
    assert by_name(twin).find_fetch(known, frame) == ("found", offset)
    assert by_name(twin).find_fetch(known, request(b"us", b"orders", rest)) is None
    assert by_name(twin).find_fetch(known, request(b"me", b"borders", rest)) is None
    assert by_name(twin).find_fetch(known, request(b"me", b"orders", rest + b"!")) is None


@TWINS
@pytest.mark.parametrize("is_flexible", [True, False])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_383, 70_000])
def test_a_produce_request_is_known_by_what_is_around_its_records(twin: Any, is_flexible: bool, size: int) -> None:
    field = uvarint(size + 1) if is_flexible else pack(">i", size)
    rest = field + b"r" * size + TAIL
    frame = request(b"me", b"orders", rest)
    known = {prefix(frame, rest): "found"}
    template = by_name(twin, is_flexible=is_flexible)
    start = len(frame) - len(rest) + len(field)
    assert template.find_produce(known, frame) == ("found", start, start + size)
    assert template.find_produce(known, frame[:-1]) is None
    assert template.find_produce(known, request(b"me", b"orders", rest[:-1] + b"?")) is None
    assert template.find_produce({}, frame) is None


@TWINS
def test_where_topics_go_by_id_the_prefix_ends_at_a_fixed_place(twin: Any) -> None:
    template = twin.RequestTemplate(20, 0, False, True, b"")
    frame = memoryview(pack(">hhih", 1, 13, 5, 3) + b"abc" + bytes(10) + pack(">q", 42) + b"end")
    assert template.end_of_prefix(frame) == 23
    assert template.find_fetch({bytes(frame[8:23]) + b"end": 1}, frame) == (1, 42)


@TWINS
def test_a_size_of_more_bits_than_there_are_is_not_as_learned(twin: Any) -> None:
    for field in (b"\xff" * 4 + b"\x0f", b"\xff" * 5 + b"\x01", b"\xff" * 12, b"\0", b""):
        rest = field + TAIL
        frame = request(b"me", b"orders", rest)
        assert by_name(twin).find_produce({prefix(frame, rest): 1}, frame) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_twins_agree_on_any_bytes(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(500):
        flexible, named = chance.random() < 0.5, chance.random() < 0.5
        arguments = (
            chance.randrange(8, 30),
            chance.randrange(12),
            named,
            flexible,
            chance.randbytes(chance.randrange(3)),
        )
        compiled, pure = (
            compiled_templates.RequestTemplate(*arguments),
            pure_templates.RequestTemplate(*arguments),
        )
        frame = memoryview(bytes(chance.choices((0, 1, 2, 3, 5, 127, 128, 255), k=chance.randrange(60))))
        end = pure.end_of_prefix(frame)
        assert compiled.end_of_prefix(frame) == end
        known = {bytes(frame[8:end]) + bytes(frame[end + 8 :]): "fetch"} if chance.random() < 0.8 else {}
        assert compiled.find_fetch(known, frame) == pure.find_fetch(known, frame)
        known = {bytes(frame[8:end]): "produce"} if chance.random() < 0.8 else {}
        assert compiled.find_produce(known, frame) == pure.find_produce(known, frame)


@pytest.mark.parametrize("is_flexible", [True, False])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_383, 2**21, 2**28])
def test_the_twins_write_the_same_replies(is_flexible: bool, size: int) -> None:
    arguments = (b"before", b"after", b"tail", is_flexible)
    compiled, pure = (
        compiled_templates.ResponseTemplate(*arguments),
        pure_templates.ResponseTemplate(*arguments),
    )
    frame = memoryview(b"keysCORRrest")
    for first, second, third in zip(EXTREMES, EXTREMES[1:], EXTREMES[2:]):
        offsets = first, second, third
        assert compiled.with_offsets(frame, *offsets) == pure.with_offsets(frame, *offsets)
        assert compiled.before_records(frame, *offsets, size) == pure.before_records(frame, *offsets, size)
    assert compiled.tail == pure.tail == b"tail"


@TWINS
def test_a_reply_is_what_its_parts_are(twin: Any) -> None:
    frame, records = memoryview(b"keysCORRrest"), bytearray(b"records")
    template = twin.ResponseTemplate(b"before", b"after", b"tail", True)
    offsets = pack(">qqq", 1, 2, 3)
    head = b"CORRbefore" + offsets + b"after"
    assert template.with_offsets(frame, 1, 2, 3) == pack(">i", len(head)) + head
    assert template.before_records(frame, 1, 2, 3, 7) == head + b"\x08"
    whole = head + b"\x08recordstail"
    for kind in (bytes, bytearray, memoryview):
        assert template.with_records(frame, 1, 2, 3, kind(records)) == pack(">i", len(whole)) + whole
    records.append(0)  # No view of it is left.


class Slotted:
    __slots__ = ("__weakref__", "field", "unset")

    field: object


@TWINS
def test_memory_is_asked_for_whatever_lies_there(twin: Any) -> None:
    one, other = Slotted(), Slotted()
    one.field = (other, 2**80)
    twin.CachePrefetch().prefetch()
    cache = twin.CachePrefetch(one, other, "text", (), 7, *range(20))
    cache.prefetch()
    del one, other
    cache.prefetch()


def test_what_memory_is_read_lives_on() -> None:
    one = Slotted()
    alive = weakref.ref(one)
    cache = compiled_templates.CachePrefetch(one)
    del one
    assert alive() is not None
    cache.prefetch()
    del cache
    assert alive() is None
