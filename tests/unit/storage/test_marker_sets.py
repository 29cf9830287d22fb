"""The markers of a group commit in one partition: until the last one is in the log, none of them counts."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest

from levada.records import BatchView, iter_batches
from levada.storage.loading import LogState
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.marker_sets import MarkerSet, Tie
from levada.storage.marker_writes import MarkerWrite
from levada.storage.producers import Origin, Producers, TransactionEnd
from tests.logs import T0, append, clean, end_transaction, killed, opened

GROUP = bytes(range(16))
MEMBERS = (101, 102, 103)
OTHER = 900
CONFIG = LogConfig()
BUMPING, CLASSIC = 2, 0
Restart = Callable[[Log], LogState]


def end_of(producer_id: int, version: int = BUMPING) -> TransactionEnd:
    """A marker of transaction version 2 has the epoch after that of its records."""
    return TransactionEnd(producer_id, int(version == BUMPING), True, 0, version)


def begin(log: Log, members: Sequence[int] = MEMBERS) -> None:
    """One record of each, and one behind them that is in no transaction."""
    for producer in members:
        append(log, b"%d" % producer, producer_id=producer, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, b"plain")


def commit(log: Log, members: Sequence[int] = MEMBERS, version: int = BUMPING) -> None:
    appended = log.append_markers([end_of(one, version) for one in members], leader_epoch=0, now_ms=T0, group=GROUP)
    assert set(appended.refused) == {None}
    log.set_high_watermark(log.end_offset)


def torn(log: Log, markers: int) -> None:
    """Leave the log's files as if the power had gone in the middle of its last write, after so many markers."""
    path = Path(log.active.path(".log"))
    first = next(one for one in iter_batches(path.read_bytes()) if one.base_offset == log.end_offset - len(MEMBERS))
    marker_size = (log.active.size - first.start) // len(MEMBERS)
    with path.open("r+b") as file:
        file.truncate(first.start + markers * marker_size)


def reopened(log: Log, restart: Restart = killed) -> Log:
    if restart is clean:
        log.close()
    again = opened(log.directory, CONFIG, state=restart(log))
    again.set_high_watermark(again.end_offset)
    return again


def is_open(log: Log, producer_id: int) -> bool:
    known = log.producers.get(producer_id)
    return known is not None and known.transaction_start is not None


def markers_of_a_leader() -> list[BatchView]:
    """As `commit` writes them."""
    write = MarkerWrite(Producers(), [end_of(one) for one in MEMBERS], GROUP, T0)
    return [BatchView(data) for data in write.batches(0, 0)]


@pytest.mark.parametrize("version", [CLASSIC, BUMPING])
@pytest.mark.parametrize(
    ("markers", "restarts"), list(product(range(len(MEMBERS)), [(), (clean,), (killed,), (clean, killed)]))
)
def test_a_torn_write_ends_nothing_until_it_is_repeated_through_any_restarts(
    tmp_path: Path, markers: int, restarts: tuple[Restart, ...], version: int
) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    commit(log, version=version)
    torn(log, markers)
    log = reopened(log)
    for restart in restarts:
        log = reopened(log, restart)
    assert log.end_offset == len(MEMBERS) + 1 + markers
    assert log.last_stable_offset == 0
    assert all(is_open(log, one) for one in MEMBERS)
    commit(log, version=version)
    for restart in (killed, clean, killed):
        assert log.last_stable_offset == log.end_offset == 2 * len(MEMBERS) + 1 + markers
        assert not any(is_open(log, one) for one in MEMBERS)
        log = reopened(log, restart)


def test_other_records_behind_a_torn_write_change_nothing(tmp_path: Path) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    commit(log)
    torn(log, 2)
    log = reopened(log)
    append(log, b"other", producer_id=OTHER, producer_epoch=0, base_sequence=0, is_transactional=True)
    end_transaction(log, OTHER, commit=True)
    log = reopened(log, clean)
    assert log.last_stable_offset == 0
    commit(log)
    assert log.last_stable_offset == log.end_offset


def test_a_write_that_is_torn_twice_is_repeated_twice(tmp_path: Path) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    commit(log)
    torn(log, 2)
    log = reopened(log)
    # In another order: what was written first counts for nothing, so nothing is counted twice.
    commit(log, MEMBERS[::-1])
    torn(log, 1)
    log = reopened(log, killed)
    assert log.last_stable_offset == 0
    commit(log)
    assert reopened(log).last_stable_offset == log.end_offset


def test_markers_written_once_more_end_nothing_even_if_that_write_is_torn(tmp_path: Path) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    commit(log)
    stable = log.last_stable_offset
    commit(log)
    torn(log, 1)
    log = reopened(log)
    assert log.last_stable_offset == log.end_offset == stable + 1


def test_of_a_torn_write_a_member_can_be_ended_by_an_administrator(tmp_path: Path) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    commit(log)
    torn(log, 1)
    log = reopened(log)
    end_transaction(log, MEMBERS[0], commit=False, epoch=1)
    assert log.last_stable_offset == 1
    assert [one.producer_id for one in log.aborted_transactions(0, log.end_offset)] == [MEMBERS[0]]
    log = reopened(log)
    assert log.last_stable_offset == 1
    commit(log, MEMBERS[1:])
    assert log.last_stable_offset == log.end_offset


def test_a_snapshot_is_taken_before_a_write_that_is_not_whole(tmp_path: Path) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    before = log.end_offset
    commit(log)
    torn(log, 2)
    log = reopened(log)
    log.close()
    snapshots = sorted(int(path.name[:20]) for path in tmp_path.glob("*.snapshot"))
    assert snapshots[-1] == before
    again = opened(tmp_path, CONFIG, state=clean(log))
    # What a follower fetches next is the rest of the write.
    for marker in markers_of_a_leader()[2:]:
        again.append(marker, leader_epoch=0, origin=Origin.REPLICATION, now_ms=T0)
    again.set_high_watermark(again.end_offset)
    assert again.last_stable_offset == again.end_offset


def test_transactions_are_unstable_until_the_last_marker_is_below_the_high_watermark(tmp_path: Path) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    for marker in markers_of_a_leader():
        log.append(marker, leader_epoch=0, origin=Origin.REPLICATION, now_ms=T0)
    first = len(MEMBERS) + 1
    for high_watermark in range(first, log.end_offset):
        log.set_high_watermark(high_watermark)
        assert log.last_stable_offset == 0
    log.set_high_watermark(log.end_offset)
    assert log.last_stable_offset == log.end_offset


@pytest.mark.parametrize("cut", range(len(MEMBERS)))
def test_a_follower_that_is_cut_in_the_middle_of_a_write_goes_on_with_the_rest(tmp_path: Path, cut: int) -> None:
    log = opened(tmp_path, CONFIG)
    begin(log)
    commit(log)
    log.truncate(len(MEMBERS) + 1 + cut, T0)
    assert log.last_stable_offset == 0
    for marker in markers_of_a_leader()[cut:]:
        log.append(marker, leader_epoch=0, origin=Origin.REPLICATION, now_ms=T0)
    log.set_high_watermark(log.end_offset)
    assert log.last_stable_offset == log.end_offset


def test_only_the_markers_of_one_write_complete_each_other() -> None:
    other = bytes(16)

    def counted(*given: tuple[bytes, int, int]) -> list[int]:
        markers: MarkerSet[int] = MarkerSet()
        return [one for digest, number, offset in given for one in markers.take(Tie(digest, number, 2), offset, offset)]

    assert counted((GROUP, 1, 0), (GROUP, 2, 1)) == [0, 1]
    assert counted((GROUP, 1, 0), (other, 2, 1)) == []
    assert counted((GROUP, 1, 0), (GROUP, 2, 2)) == []
    assert counted((GROUP, 2, 1)) == []
    assert counted((GROUP, 1, 0), (GROUP, 1, 1), (GROUP, 2, 2)) == [1, 2]
    assert counted((GROUP, 1, 0), (other, 1, 1), (GROUP, 2, 2)) == []
