"""The notation and what the compiled functions make of it."""

from typing import Annotated

import pytest

from levada.protocol.codec import decode, decode_prefix, encode, encode_bytes
from levada.protocol.declare import (
    IGNORABLE,
    Bool,
    Bytes,
    Int16,
    Int32,
    NullableSince,
    Since,
    StoredRecords,
    String,
    Tag,
    Until,
    message,
    struct,
)
from levada.protocol.errors import CannotEncode, MalformedMessage, UnsupportedVersion
from levada.world.disk import FileRange


@struct
class Point:
    x: Int32 = 1
    y: Annotated[Int32, Since(1), IGNORABLE] = 2


@message(versions="0-3", flexible="2+")
class Drawing:
    title: Annotated[String | None, NullableSince(1)]
    points: list[Point]
    numbers: list[Int16]
    old: Annotated[Int32, Until(1)] = 7
    lost: Annotated[String, Since(1), IGNORABLE] = "default"
    center: Annotated[Point | None, Since(2), Tag(0)] = None
    is_nice: Annotated[Bool, Since(3), Tag(5), IGNORABLE] = False
    extra: Annotated[Point | None, Since(3)] = None


def drawing(**changes: object) -> Drawing:
    values: dict[str, object] = {"title": "t", "points": [Point(x=3)], "numbers": [1, 2], **changes}
    return Drawing(**values)  # type: ignore[arg-type]


def test_a_message_has_the_bytes_of_its_version() -> None:
    assert encode_bytes(drawing(), 0) == bytes.fromhex("0001 74  00000001 00000003  00000002 0001 0002  00000007")
    assert encode_bytes(drawing(), 1).endswith(b"\x00\x07default")
    assert encode_bytes(drawing(old=7), 2) == bytes.fromhex(
        "02 74  02 00000003 00000002 00  03 0001 0002  08 64656661756c74  00"
    )


@pytest.mark.parametrize("version", range(4))
def test_decoding_gives_back_what_was_encoded(version: int) -> None:
    sent = drawing(numbers=list(range(40)), points=[Point(x=n) for n in range(200)], lost="default")
    assert decode(Drawing, version, encode_bytes(sent, version)) == sent


def test_tagged_fields_at_their_default_are_not_sent() -> None:
    plain = encode_bytes(drawing(), 3)
    assert encode_bytes(drawing(center=Point()), 3) == plain
    assert decode(Drawing, 3, plain).center is None
    tagged = encode_bytes(drawing(center=Point(x=9), is_nice=True), 3)
    assert decode(Drawing, 3, tagged) == drawing(center=Point(x=9), is_nice=True)
    # Two tags in ascending order: 0 with a struct of nine bytes, 5 with one byte.
    assert tagged.endswith(bytes.fromhex("02  00 09 00000009 00000002 00  05 01 01"))


def test_unknown_tags_are_kept_apart_and_sent_on() -> None:
    plain = encode_bytes(drawing(), 3)
    assert plain[-1] == 0
    with_unknown = plain[:-1] + bytes.fromhex("02  05 01 01  63 02 abcd")
    decoded = decode(Drawing, 3, with_unknown)
    assert decoded.unknown_tags == {0x63: b"\xab\xcd"}  # type: ignore[attr-defined]
    assert decoded.is_nice
    assert encode_bytes(decoded, 3) == with_unknown


def test_a_nullable_struct_has_a_presence_byte() -> None:
    absent, present = encode_bytes(drawing(), 3), encode_bytes(drawing(extra=Point()), 3)
    assert absent[-2:] == b"\xff\x00"
    assert len(present) == len(absent) + 9
    assert decode(Drawing, 3, present).extra == Point()


def test_null_is_refused_where_the_version_has_none() -> None:
    with pytest.raises(CannotEncode):
        encode_bytes(drawing(title=None), 0)
    null_title = b"\xff\xff" + encode_bytes(drawing(title=""), 0)[2:]
    with pytest.raises(MalformedMessage, match="title may not be null"):
        decode(Drawing, 0, null_title)
    assert decode(Drawing, 1, encode_bytes(drawing(title=None), 1)).title is None
    null_points = encode_bytes(drawing(points=[]), 0).replace(b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", 1)
    with pytest.raises(MalformedMessage, match="points may not be null"):
        decode(Drawing, 0, null_points)


def test_a_value_that_a_version_cannot_carry_is_refused_unless_it_may_be_ignored() -> None:
    with pytest.raises(CannotEncode, match="old"):
        encode_bytes(drawing(old=8), 2)
    with pytest.raises(CannotEncode, match="center"):
        encode_bytes(drawing(center=Point(x=9)), 1)
    assert encode_bytes(drawing(lost="other"), 0) == encode_bytes(drawing(), 0)


def test_fields_outside_their_versions_get_their_defaults() -> None:
    decoded = decode(Drawing, 0, encode_bytes(drawing(lost="gone"), 0))
    assert decoded.lost == "default"
    assert decoded.points[0].y == 2


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"\x00",
        b"\x7f\xff" + b"a",
        b"\x00\x01t" + b"\x7f\xff\xff\xff",
        b"\x00\x01t" + b"\x00\x00\x00\x01" + b"\x00\x00\x00\x03" + b"\x7f\xff\xff\xff",
        b"\x00\x01\xff" + bytes(12),
    ],
    ids=["empty", "short", "long string", "long array", "long number array", "not UTF-8"],
)
def test_broken_bytes_raise_one_error(broken: bytes) -> None:
    with pytest.raises(MalformedMessage):
        decode(Drawing, 0, broken)


def test_a_varint_of_more_than_32_bits_is_refused() -> None:
    with pytest.raises(MalformedMessage):
        decode(Drawing, 2, b"\xff\xff\xff\xff\xff\x01")
    with pytest.raises(MalformedMessage):
        decode(Drawing, 2, b"\xff\xff\xff\xff\x7f")


def test_a_string_is_no_longer_than_older_versions_could_send_it_on() -> None:
    longest = drawing(title="t" * 32_767)
    for version in range(4):
        assert decode(Drawing, version, encode_bytes(longest, version)) == longest
    too_long = drawing(title="t" * 32_768)
    for version in (2, 3):
        with pytest.raises(MalformedMessage, match="title is longer than a string may be"):
            decode(Drawing, version, encode_bytes(too_long, version))


def test_bytes_that_follow_are_refused_or_left_to_the_caller() -> None:
    encoded = encode_bytes(drawing(), 1)
    with pytest.raises(MalformedMessage, match="3 bytes follow"):
        decode(Drawing, 1, encoded + bytes(3))
    assert decode_prefix(Drawing, 1, b"?" + encoded + bytes(3), 1) == (drawing(), 1 + len(encoded))


def test_a_tag_must_have_the_size_it_names() -> None:
    plain = encode_bytes(drawing(), 3)[:-1]
    with pytest.raises(MalformedMessage):
        decode(Drawing, 3, plain + bytes.fromhex("01 05 02 0101"))
    with pytest.raises(MalformedMessage):
        decode(Drawing, 3, plain + bytes.fromhex("01 63 7f 00"))


def test_values_out_of_range_and_of_the_wrong_type_are_refused() -> None:
    for wrong in ({"numbers": [1 << 15]}, {"points": [Point(x=1 << 31)]}, {"title": 5}, {"title": "x" * 40_000}):
        with pytest.raises(CannotEncode):
            encode_bytes(drawing(**wrong), 0)


def test_versions_that_do_not_exist_are_refused() -> None:
    with pytest.raises(UnsupportedVersion):
        encode_bytes(drawing(), 4)
    with pytest.raises(UnsupportedVersion):
        decode(Drawing, -1, b"")


@message(versions="0-1", flexible="1+")
class Blob:
    small: Bytes
    records: StoredRecords | None


def test_records_stay_where_they_are_until_they_are_sent() -> None:
    large = bytes(100_000)
    pieces = encode(Blob(small=b"s", records=large), 1)
    assert any(piece is large for piece in pieces)
    in_file = FileRange(file=None, position=10, size=1_000)  # type: ignore[arg-type]
    pieces = encode(Blob(small=b"s", records=in_file), 0)
    assert pieces[-1] is in_file
    assert int.from_bytes(bytes(pieces[-2])[-4:], "big") == 1_000  # type: ignore[arg-type]


def test_decoded_records_are_a_view_and_other_bytes_a_copy() -> None:
    frame = bytearray(encode_bytes(Blob(small=b"s", records=b"records"), 0))
    decoded = decode(Blob, 0, memoryview(frame))
    frame[-1] = ord("S")
    frame[4] = ord("X")
    assert bytes(decoded.records) == b"recordS"  # type: ignore[arg-type]
    assert decoded.small == b"s"
