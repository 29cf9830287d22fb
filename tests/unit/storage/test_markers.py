"""Ends of several transactions, written together."""

from pathlib import Path

import pytest

from levada.model.errors import InvalidProducerEpoch
from levada.records import BatchView, ControlType, end_transaction_marker
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.marker_writes import NO_GROUP
from levada.storage.producers import TransactionEnd
from tests.logs import T0, append, clean, opened

PRODUCERS = range(100, 120)
EPOCH = 1
MANY_ENTRIES = LogConfig(index_interval_bytes=100)


def begin_all(log: Log) -> None:
    for producer in PRODUCERS:
        append(log, b"value", producer_id=producer, producer_epoch=EPOCH, base_sequence=0, is_transactional=True)


def end_of(producer_id: int, *, commit: bool = True, epoch: int = EPOCH) -> TransactionEnd:
    return TransactionEnd(producer_id, epoch, commit, coordinator_epoch=0, transaction_version=0)


def end_all(log: Log, *, commit: bool = True) -> None:
    log.append_markers([end_of(producer, commit=commit) for producer in PRODUCERS], leader_epoch=0, now_ms=T0)
    log.set_high_watermark(log.end_offset)


def test_markers_written_together_end_each_its_own_transaction(tmp_path: Path) -> None:
    log = opened(tmp_path)
    begin_all(log)
    assert log.last_stable_offset == 0
    end_all(log, commit=False)
    assert log.last_stable_offset == log.end_offset == 2 * len(PRODUCERS)
    aborted = log.aborted_transactions(0, log.end_offset)
    assert [(one.producer_id, one.first_offset) for one in aborted] == list(zip(PRODUCERS, range(len(PRODUCERS))))
    offsets = [batch.base_offset for batch in _batches(log)]
    assert offsets == list(range(2 * len(PRODUCERS)))


def test_the_indexes_know_every_marker_as_if_it_had_been_written_alone(tmp_path: Path) -> None:
    together, alone = opened(tmp_path / "together", MANY_ENTRIES), opened(tmp_path / "alone", MANY_ENTRIES)
    begin_all(together)
    begin_all(alone)
    end_all(together)
    for producer in PRODUCERS:
        alone.append_markers([end_of(producer)], leader_epoch=0, now_ms=T0)
    alone.set_high_watermark(alone.end_offset)
    states = clean(together), clean(alone)
    for log in (together, alone):
        log.close()
    files = sorted(path.name for path in (tmp_path / "alone").iterdir())
    assert any(name.endswith(".index") for name in files)
    for name in files:
        assert (tmp_path / "together" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes(), name
    again = opened(tmp_path / "together", MANY_ENTRIES, state=states[0])
    assert again.end_offset == 2 * len(PRODUCERS)


@pytest.mark.parametrize("group", [NO_GROUP, bytes(16)])
def test_a_marker_that_is_refused_keeps_no_other_back(tmp_path: Path, group: bytes) -> None:
    log = opened(tmp_path)
    begin_all(log)
    ends = [end_of(producer, epoch=EPOCH - (producer % 5 == 0)) for producer in PRODUCERS]
    appended = log.append_markers(ends, leader_epoch=0, now_ms=T0, group=group)
    log.set_high_watermark(log.end_offset)
    left = [producer for producer in PRODUCERS if producer % 5 == 0]
    assert [isinstance(one, InvalidProducerEpoch) for one in appended.refused] == [one in left for one in PRODUCERS]
    assert log.end_offset == 2 * len(PRODUCERS) - len(left)
    assert log.last_stable_offset == left[0] - PRODUCERS[0], "of those that were refused the first is open"
    again = log.append_markers([end_of(one) for one in left], leader_epoch=0, now_ms=T0, group=group)
    log.set_high_watermark(log.end_offset)
    assert set(again.refused) == {None}
    assert log.last_stable_offset == log.end_offset


def test_nothing_is_written_if_all_markers_are_refused(tmp_path: Path) -> None:
    log = opened(tmp_path)
    begin_all(log)
    end = log.end_offset
    appended = log.append_markers([end_of(PRODUCERS[0], epoch=EPOCH - 1)], leader_epoch=0, now_ms=T0)
    assert (appended.size, log.end_offset, log.last_stable_offset) == (0, end, 0)


def test_a_marker_that_stands_alone_is_as_apache_writes_it(tmp_path: Path) -> None:
    log = opened(tmp_path)
    begin_all(log)
    first = log.end_offset
    log.append_markers([end_of(PRODUCERS[0])], leader_epoch=3, now_ms=T0, group=bytes(16))
    log.append_markers([end_of(one) for one in PRODUCERS[1:3]], leader_epoch=3, now_ms=T0)
    found = log.read(first, 1 << 20, at_least_one_batch=True, upper_offset=log.end_offset)
    assert found is not None
    wanted = [
        end_transaction_marker(
            ControlType.COMMIT,
            producer_id=PRODUCERS[0] + number,
            producer_epoch=EPOCH,
            coordinator_epoch=0,
            timestamp_ms=T0,
            base_offset=first + number,
            partition_leader_epoch=3,
        )
        for number in range(3)
    ]
    assert found.file.read(found.position, found.size) == b"".join(wanted)


def _batches(log: Log) -> list[BatchView]:
    return [place.header for segment in log.segments for place in segment.headers(0)]
