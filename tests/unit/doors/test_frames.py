"""The frames of batches and snapshots, and those of the local coordinator's files."""

import pytest

from levada.doors.frames import (
    FRAME_HEAD_SIZE,
    decode_batch,
    decode_snapshot,
    encode_batch,
    encode_snapshot,
    frame,
    frames,
)
from levada.doors.local_frames import Start, decode_start, encode_start, frame_size, has_batch_behind
from levada.metadata.delta import apply
from levada.metadata.door import DoorError, MetadataBatch
from levada.metadata.image import Image
from levada.metadata.records import FeatureLevelRecord, RemoveTopicRecord, TopicRecord

RECORDS = (TopicRecord(name="first", topic_id=b"f" * 16), FeatureLevelRecord(name="metadata.version", feature_level=30))
BATCH = MetadataBatch(3, 41, RECORDS)
NEWER = 1


def payload(data: bytes) -> bytes:
    (placed,) = frames(data)
    return placed.payload


def test_a_batch_comes_back_as_it_was() -> None:
    assert decode_batch(payload(encode_batch(BATCH))) == BATCH
    assert BATCH.last_offset == 42


@pytest.mark.parametrize("start", [Start(0, 0), Start(7, 41), Start(7, 41, payload(encode_batch(BATCH)))])
def test_a_start_comes_back_as_it_was(start: Start) -> None:
    data = encode_start(start)
    assert decode_start(payload(data)) == start
    assert frame_size(data[:FRAME_HEAD_SIZE]) == len(data)


def test_a_snapshot_comes_back_as_it_was() -> None:
    image = apply(Image(), RECORDS, 41)
    assert decode_snapshot(encode_snapshot(image, 3, 1_234)) == (image, 3, 1_234)


def test_frames_end_where_one_is_not_sound() -> None:
    data = frame(b"one") + frame(b"two")
    assert [(placed.payload, placed.end) for placed in frames(data)] == [(b"one", 11), (b"two", 22)]
    for size in range(len(data)):
        assert [placed.payload for placed in frames(data[:size])] == [b"one"][: size // 11]
    for position in range(11, 22):
        damaged = bytearray(data)
        damaged[position] ^= 1
        assert [placed.payload for placed in frames(bytes(damaged))] == [b"one"]


@pytest.mark.parametrize("tail", [bytes(8), bytes(1_000), b"\xff" * 8, frame(b"")])
def test_zeros_are_no_frames(tail: bytes) -> None:
    assert [placed.payload for placed in frames(frame(b"one") + tail)] == [b"one"]


def test_a_batch_is_found_behind_damage_but_not_in_a_torn_end() -> None:
    whole = encode_batch(BATCH)
    assert has_batch_behind(b"garbage" + whole, 0)
    assert has_batch_behind(whole + b"garbage" + whole + b"more", len(whole))
    assert not has_batch_behind(whole + whole, 2 * len(whole))
    for size in range(len(whole)):
        assert not has_batch_behind(whole + whole[:size], len(whole))
        assert not has_batch_behind(whole + bytes(size), len(whole))


@pytest.mark.parametrize("size", range(FRAME_HEAD_SIZE))
def test_a_head_that_is_torn_has_no_size(size: int) -> None:
    assert frame_size(bytes(size)) == 0


@pytest.mark.parametrize(
    ("data", "decode"),
    [(encode_batch(BATCH), decode_batch), (encode_start(Start(0, 0)), decode_start)],
    ids=["batch", "start"],
)
def test_frames_of_a_newer_release_are_named_as_such(data: bytes, decode: type) -> None:
    newer = payload(data)[:1] + bytes((NEWER,)) + b"laid out in another way"
    with pytest.raises(DoorError, match="frames of version 1; this release reads 0"):
        decode(newer)
    with pytest.raises(DoorError, match="was due"):
        decode(b"x" + newer[1:])


def test_a_snapshot_of_a_newer_release_is_not_taken_for_a_damaged_one() -> None:
    newer = payload(encode_snapshot(Image(), 0, 0))[:1] + bytes((NEWER,)) + b"laid out in another way"
    with pytest.raises(DoorError, match="frames of version 1; this release reads 0"):
        decode_snapshot(frame(newer))


@pytest.mark.parametrize("data", [b"", b"torn", encode_snapshot(Image(), 0, 0)[:-1]])
def test_a_damaged_snapshot_is_none(data: bytes) -> None:
    assert decode_snapshot(data) is None


def test_a_record_of_a_newer_release_is_not_passed_over() -> None:
    known = payload(encode_batch(MetadataBatch(1, 0, (RemoveTopicRecord(topic_id=b"f" * 16),))))
    unknown = known.replace(b"\x01\x09\x00", b"\x01\x7f\x00")
    assert unknown != known
    with pytest.raises(DoorError, match="what this release cannot read: metadata record type 127 version 0"):
        decode_batch(unknown)
