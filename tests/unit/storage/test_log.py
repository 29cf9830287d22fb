"""The log of one partition on a real disk."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.model.errors import (
    InvalidProducerEpoch,
    KafkaStorageError,
    OffsetOutOfRange,
    OutOfOrderSequenceNumber,
    RecordListTooLarge,
)
from penstock.records import BatchView, build_batch, iter_batches
from penstock.storage.log import Log, open_log
from penstock.world.real_disk import RealDisk

T0 = 1_700_000_000_000


def batch(*values: bytes, at_ms: int = T0, **settings: int) -> BatchView:
    return BatchView(build_batch([(at_ms, None, value, ()) for value in values], **settings))  # type: ignore[arg-type]


def values_from(log: Log, offset: int, max_bytes: int = 1 << 20) -> list[bytes | None]:
    found = log.read(offset, max_bytes, at_least_one_batch=True)
    if found is None:
        return []
    data = found.file.read(found.position, found.size)
    return [record.value for one in iter_batches(data) for record in one.records() if record.offset >= offset]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened, cut = open_log(RealDisk(), str(tmp_path / "t-0"), segment_bytes=1_000)
    assert cut is None
    yield opened
    opened.close()


def reopened(log: Log) -> Log:
    log.close()
    again, _ = open_log(RealDisk(), log._directory, segment_bytes=1_000)
    return again


def test_offsets_follow_each_other_and_are_written_into_the_batches(log: Log) -> None:
    assert (log.append(batch(b"a", b"b"), 5).base_offset, log.append(batch(b"c"), 5).base_offset) == (0, 2)
    found = log.read(0, 1 << 20, at_least_one_batch=True)
    assert found is not None
    batches = list(iter_batches(found.file.read(found.position, found.size)))
    assert [(one.base_offset, one.partition_leader_epoch, one.crc_is_valid()) for one in batches] == [
        (0, 5, True),
        (2, 5, True),
    ]


def test_a_read_begins_with_the_batch_that_holds_the_offset(log: Log) -> None:
    for number in range(100):
        log.append(batch(*(f"{number}-{part}".encode() for part in range(3))), 0)
    for offset in (0, 1, 2, 3, 150, 298, 299):
        assert values_from(log, offset)[0] == f"{offset // 3}-{offset % 3}".encode()
    assert values_from(log, 300) == []
    for offset in (-1, 301):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100, at_least_one_batch=True)


def test_segments_roll_and_are_read_across(log: Log) -> None:
    for number in range(50):
        log.append(batch(str(number).encode() * 20), 0)
    assert len(log._segments) > 2
    collected: list[bytes | None] = []
    while len(collected) < 50:
        collected += values_from(log, len(collected))
    assert collected == [str(number).encode() * 20 for number in range(50)]
    again = reopened(log)
    assert again.end_offset == 50
    assert values_from(again, 49) == [b"49" * 20]
    again.close()


def test_limits_cut_a_read_except_the_first_batch(log: Log) -> None:
    first = batch(b"x" * 300)
    log.append(first, 0)
    log.append(batch(b"y" * 300), 0)
    cut = log.read(0, 10, at_least_one_batch=False)
    assert cut is not None
    assert cut.size == 10
    whole = log.read(0, 10, at_least_one_batch=True)
    assert whole is not None
    assert whole.size == first.size
    assert log.read(0, 0, at_least_one_batch=False) is None


def test_a_batch_larger_than_a_segment_is_refused(log: Log) -> None:
    with pytest.raises(RecordListTooLarge):
        log.append(batch(bytes(1_000)), 0)


def test_records_are_found_by_time(log: Log) -> None:
    for number in range(60):
        log.append(batch(b"v", at_ms=T0 + number * 10), 0)
    assert log.first_record_since(T0) is not None
    found = log.first_record_since(T0 + 301)
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (31, T0 + 310)
    assert log.first_record_since(T0 + 10_000) is None
    newest = log.newest_record()
    assert newest is not None
    assert newest.offset == 59


@pytest.mark.parametrize("lost", [1, 20, 60, 80])
def test_a_torn_tail_is_cut_at_the_last_whole_batch(log: Log, lost: int) -> None:
    for number in range(5):
        log.append(batch(f"{number}".encode()), 0)
    size = log._segments[-1].size
    log.close()
    path = Path(log._segments[-1].file.path)
    path.write_bytes(path.read_bytes()[: size - lost])
    again, cut = open_log(RealDisk(), log._directory, segment_bytes=1_000)
    batch_size = size // 5
    whole = (size - lost) // batch_size
    assert again.end_offset == whole
    assert (cut is None) == ((size - lost) % batch_size == 0)
    assert path.stat().st_size == whole * batch_size
    assert again.append(batch(b"new"), 0).base_offset == whole
    assert values_from(again, whole) == [b"new"]
    again.close()


def test_damage_in_an_old_segment_drops_what_follows_it(log: Log) -> None:
    for number in range(50):
        log.append(batch(str(number).encode() * 20), 0)
    second = log._segments[1]
    base, path = second.base_offset, Path(second.file.path)
    log.close()
    damaged = bytearray(path.read_bytes())
    damaged[-1] ^= 1
    path.write_bytes(damaged)
    again, cut = open_log(RealDisk(), log._directory, segment_bytes=1_000)
    assert cut is not None
    assert cut.path == str(path)
    assert "CRC" in cut.reason
    assert base < again.end_offset < 50
    assert len(list(Path(log._directory).glob("*.log"))) == 2
    again.close()


@pytest.mark.parametrize("tail", [bytes(500), b"\xff" * 500, bytes(8) + (30).to_bytes(4, "big") + bytes(60)])
def test_zeros_and_garbage_after_the_last_batch_are_cut(log: Log, tail: bytes) -> None:
    log.append(batch(b"good"), 0)
    log.close()
    path = Path(log._segments[-1].file.path)
    path.write_bytes(path.read_bytes() + tail)
    again, cut = open_log(RealDisk(), log._directory, segment_bytes=1_000)
    assert cut is not None
    assert cut.lost_bytes == len(tail)
    assert values_from(again, 0) == [b"good"]
    again.close()


def test_a_sequence_follows_is_repeated_or_is_refused(log: Log) -> None:
    def send(sequence: int, *, epoch: int = 0, count: int = 1) -> tuple[int, bool]:
        one = batch(*[b"v"] * count, producer_id=7, producer_epoch=epoch, base_sequence=sequence)
        appended = log.append(one, 0)
        return appended.base_offset, appended.is_duplicate

    assert send(0, count=6) == (0, False)
    assert send(6) == (6, False)
    assert send(6) == (6, True)
    assert send(0, count=6) == (0, True)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(8)
    assert send(7) == (7, False)
    with pytest.raises(OutOfOrderSequenceNumber):
        send(3, epoch=1)
    assert send(0, epoch=1) == (8, False)
    with pytest.raises(InvalidProducerEpoch):
        send(8, epoch=0)
    assert log.end_offset == 9


def test_producers_are_remembered_across_a_restart(log: Log) -> None:
    log.append(batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0), 0)
    again = reopened(log)
    assert again.append(batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=0), 0).is_duplicate
    assert again.append(batch(b"c", producer_id=7, producer_epoch=0, base_sequence=2), 0).base_offset == 2
    again.close()


def test_sequences_wrap_to_zero(log: Log) -> None:
    last = 2**31 - 1
    log.append(batch(b"a", b"b", producer_id=7, producer_epoch=0, base_sequence=last - 1), 0)
    assert not log.append(batch(b"c", producer_id=7, producer_epoch=0, base_sequence=0), 0).is_duplicate


class FullFile:
    """A file whose device takes only a part of each write, or fails to be cut back."""

    def __init__(self, inner: object, *, is_stuck: bool) -> None:
        self._inner = inner
        self._is_stuck = is_stuck

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def append(self, buffers: list[bytes]) -> int:
        return self._inner.append([bytes(buffers[0])[:7]])  # type: ignore[attr-defined,no-any-return]

    def truncate(self, size: int) -> None:
        if self._is_stuck:
            raise OSError(errno.EIO, "stuck")
        self._inner.truncate(size)  # type: ignore[attr-defined]


def test_a_short_write_leaves_the_log_as_it_was(log: Log) -> None:
    log.append(batch(b"kept"), 0)
    segment = log._segments[-1]
    good = segment.file
    segment.file = FullFile(good, is_stuck=False)  # type: ignore[assignment]
    with pytest.raises(KafkaStorageError):
        log.append(batch(b"lost"), 0)
    segment.file = good
    assert log.append(batch(b"next"), 0).base_offset == 1
    assert values_from(log, 0) == [b"kept", b"next"]


def test_a_log_that_cannot_be_cut_back_goes_offline(log: Log) -> None:
    segment = log._segments[-1]
    good = segment.file
    segment.file = FullFile(good, is_stuck=True)  # type: ignore[assignment]
    with pytest.raises(KafkaStorageError):
        log.append(batch(b"lost"), 0)
    segment.file = good
    with pytest.raises(KafkaStorageError, match="offline"):
        log.append(batch(b"next"), 0)
    again = reopened(log)
    assert again.end_offset == 0
    again.close()
