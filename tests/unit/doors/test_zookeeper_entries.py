"""Entries of the log in ZooKeeper, whole and in parts."""

import pytest

from levada.doors.frames import frame, frames
from levada.doors.zookeeper_entries import MAX_NODE_BYTES, chunks_of, decode_entry, decode_entry_batch, encode_entry
from levada.metadata.door import DoorError, MetadataBatch
from levada.metadata.records import ConfigRecord

MARK = b"m" * 16


def batch_of(size: int) -> MetadataBatch:
    record = ConfigRecord(resource_type=2, resource_name="log", name="a", value="v" * 1_000)
    return MetadataBatch(3, 41, (record,) * (size // 1_000))


def test_a_batch_comes_back_as_it_was() -> None:
    batch = batch_of(3_000)
    data, parts = encode_entry(batch, MARK)
    entry = decode_entry(data, "/log/0")
    assert (entry.mark, entry.parts, parts) == (MARK, 0, [])
    assert decode_entry_batch(entry.batch, "/log/0") == batch


def test_a_large_batch_is_in_parts_that_fit_into_nodes() -> None:
    batch = batch_of(3 * MAX_NODE_BYTES)
    data, parts = encode_entry(batch, MARK)
    entry = decode_entry(data, "/log/0")
    assert entry.batch == b""
    assert entry.parts == len(parts) == 4
    assert all(len(part) <= MAX_NODE_BYTES for part in parts)
    assert decode_entry_batch(b"".join(parts), "/log/0") == batch
    with pytest.raises(DoorError, match="/log/0 in ZooKeeper is damaged"):
        decode_entry_batch(b"".join(parts[:-1]), "/log/0")


@pytest.mark.parametrize("size", [1, MAX_NODE_BYTES, MAX_NODE_BYTES + 1])
def test_chunks_are_all_there_is(size: int) -> None:
    chunks = chunks_of(bytes(size))
    assert sum(map(len, chunks)) == size
    assert len(chunks) == (size + MAX_NODE_BYTES - 1) // MAX_NODE_BYTES


def test_damage_is_not_read() -> None:
    data, _ = encode_entry(batch_of(1_000), MARK)
    for damaged in (b"", data[:-1], data[:20] + b"\xff" + data[21:], data + b"more"):
        with pytest.raises(DoorError, match="/log/7 in ZooKeeper is damaged"):
            decode_entry(damaged, "/log/7")


def test_an_entry_of_a_newer_release_is_named_as_such() -> None:
    (placed,) = frames(encode_entry(batch_of(1_000), MARK)[0])
    with pytest.raises(DoorError, match="frames of version 1; this release reads 0"):
        decode_entry(frame(placed.payload[:1] + b"\x01" + b"laid out in another way"), "/log/0")
