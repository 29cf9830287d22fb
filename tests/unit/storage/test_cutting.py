"""Taking parts off a log: truncation at its end, a later start, and the leader epochs that follow both."""

from pathlib import Path

import pytest

from levada.model.errors import OffsetOutOfRange
from levada.storage.leader_epochs import EpochStart, LeaderEpochs
from levada.storage.log import Log
from levada.world.real_disk import RealDisk
from tests.logs import (
    T0,
    append,
    check_indexes,
    clean,
    delete_old_segments,
    end_transaction,
    killed,
    opened,
    read_all,
    run_search,
    values_of,
)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Sixty records in twenty batches, the epoch one more in every fifth batch."""
    made = opened(tmp_path / "t-0")
    for number in range(20):
        values = [b"%02d" % (number * 3 + part) * 15 for part in range(3)]
        append(made, *values, leader_epoch=number // 5, at_ms=T0 + number)
    assert len(made.segments) > 3
    return made


def unstable(log: Log) -> int | None:
    return log.producers.first_unstable_offset


def names(log: Log, suffix: str) -> list[int]:
    return sorted(int(path.name[:20]) for path in Path(log.directory).glob(f"*{suffix}"))


@pytest.mark.parametrize("offset", [57, 45, 30, 15, 3, 0])
def test_truncation_drops_all_at_and_above_the_offset(log: Log, offset: int) -> None:
    before = list(read_all(log))
    assert log.truncate(offset, T0)
    assert (log.end_offset, log.high_watermark) == (offset, offset)
    assert list(read_all(log)) == before[:offset]
    assert all(entry.start_offset < offset for entry in log.epochs.entries)
    newest = run_search(log.search_newest())
    assert (newest.offset if newest else None) == (offset - 3 if offset else None)
    assert append(log, b"new", leader_epoch=9).base_offset == offset
    assert log.epochs.entries[-1] == EpochStart(9, offset)
    for stop in (clean, killed):
        log.close()
        log = opened(log.directory, state=stop(log))
        assert list(read_all(log)) == [*before[:offset], (offset, b"new")]
    log.close()
    check_indexes(log.directory)


def test_the_newest_record_has_its_own_epoch_even_where_the_log_starts_behind_it(log: Log) -> None:
    log.high_watermark = log.end_offset
    log.raise_start(58)
    newest = run_search(log.search_newest())
    assert newest is not None
    assert (newest.offset, newest.leader_epoch) == (57, 3)
    log.raise_start(60)
    assert run_search(log.search_newest()) == newest


def test_truncation_within_a_batch_drops_the_whole_batch_and_ends_at_the_offset(log: Log) -> None:
    log.truncate(31, T0)
    assert log.end_offset == 31
    assert values_of(log)[-1] == b"29" * 15
    # A reader at the hole waits, and then gets what comes behind it.
    assert values_of(log, 30) == []
    assert append(log, b"new").base_offset == 31
    assert list(read_all(log, 30)) == [(31, b"new")]
    log.close()
    assert list(read_all(opened(log.directory, state=clean(log)), 29)) == [(29, b"29" * 15), (31, b"new")]


def test_a_hole_at_the_end_is_gone_after_a_restart(log: Log) -> None:
    log.truncate(32, T0)
    log.close()
    assert opened(log.directory, state=clean(log)).end_offset == 30


def test_truncation_at_or_behind_the_end_changes_nothing(log: Log) -> None:
    before = list(read_all(log))
    assert not log.truncate(60, T0)
    assert not log.truncate(1_000, T0)
    assert list(read_all(log)) == before
    assert log.end_offset == 60


def test_truncation_retires_later_segments_with_their_snapshots(log: Log) -> None:
    second = log.segments[1].base_offset
    log.truncate(second, T0)
    assert names(log, ".log") == [0, second]
    assert max(names(log, ".snapshot")) <= second
    assert names(log, ".log.deleted")
    assert log.active.size == 0


def test_truncation_lowers_the_recovery_point_and_the_start(log: Log) -> None:
    log.flush()
    log.raise_start(33)
    log.truncate(30, T0)
    assert (log.recovery_point, log.start_offset, log.end_offset) == (30, 30, 30)


def test_truncation_below_the_first_segment_begins_anew_there(log: Log) -> None:
    log.raise_start(40)
    delete_old_segments(log)
    assert log.segments[0].base_offset > 10
    log.truncate(10, T0)
    assert (log.start_offset, log.end_offset, log.high_watermark, log.recovery_point) == (10, 10, 10, 10)
    assert append(log, b"x", leader_epoch=5).base_offset == 10
    assert names(log, ".log") == [10]
    log.close()
    assert list(read_all(opened(log.directory, state=clean(log)))) == [(10, b"x")]


def test_truncation_forgets_sequences_and_transactions_behind_it(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    mine = {"producer_id": 7, "producer_epoch": 0}
    append(log, b"a", base_sequence=0, **mine)
    append(log, b"b", base_sequence=1, is_transactional=True, **mine)
    end_transaction(log, 7, commit=False)
    append(log, b"c", base_sequence=2, is_transactional=True, **mine)
    assert unstable(log) == 3
    log.truncate(3, T0)
    assert unstable(log) is None
    assert log.last_stable_offset == 3
    assert len(log.aborted_transactions(0, 10)) == 1
    log.truncate(2, T0)
    assert log.aborted_transactions(0, 10) == []
    assert unstable(log) == 1
    assert append(log, b"c", base_sequence=2, is_transactional=True, **mine).base_offset == 2
    log.truncate(1, T0)
    assert unstable(log) is None
    assert append(log, b"b", base_sequence=1, **mine).base_offset == 1


def test_the_start_hides_records_and_frees_whole_segments_only(log: Log) -> None:
    second, third = log.segments[1].base_offset, log.segments[2].base_offset
    log.raise_start(third - 1)
    with pytest.raises(OffsetOutOfRange):
        log.read(third - 2, 1, at_least_one_batch=True, upper_offset=60)
    assert next(read_all(log))[0] == third - 1
    assert delete_old_segments(log) == 1
    assert names(log, ".log")[0] == second
    log.raise_start(third)
    assert delete_old_segments(log) == 1
    assert names(log, ".log")[0] == third
    assert third in names(log, ".snapshot")
    assert second not in names(log, ".snapshot")


def test_the_last_segment_stays_whatever_the_start(log: Log) -> None:
    log.raise_start(60)
    delete_old_segments(log)
    assert len(log.segments) == 1
    assert append(log, b"on").base_offset == 60
    assert values_of(log) == [b"on"]


def test_the_start_never_goes_back_and_never_above_the_high_watermark(log: Log) -> None:
    log.raise_start(20)
    log.raise_start(10)
    assert log.start_offset == 20
    log.set_high_watermark(50)
    with pytest.raises(OffsetOutOfRange):
        log.raise_start(51)


def test_a_start_is_kept_by_its_checkpoint_and_one_behind_the_end_empties_the_log(
    log: Log, caplog: pytest.LogCaptureFixture
) -> None:
    log.raise_start(20)
    log.close()
    assert opened(log.directory, state=clean(log)).start_offset == 20
    state = clean(log)
    object.__setattr__(state, "start_offset", 100)
    again = opened(log.directory, state=state)
    assert (again.start_offset, again.end_offset) == (100, 100)
    assert "before its start offset 100" in caplog.text
    assert names(again, ".log") == [100]


def test_epochs_begin_where_their_first_batch_lies(log: Log) -> None:
    assert log.epochs.entries == tuple(EpochStart(number, number * 15) for number in range(4))
    log.flush()
    text = (Path(log.directory) / "leader-epoch-checkpoint").read_text()
    assert text == "0\n4\n0 0\n1 15\n2 30\n3 45\n"
    log.raise_start(20)
    assert log.epochs.entries[0] == EpochStart(1, 20)
    log.close()
    assert opened(log.directory, state=clean(log)).epochs.entries == log.epochs.entries


@pytest.mark.parametrize("damaged", ["", "1\n0\n", "0\n5\n0 0\n", "0\n1\n0\n", "0\n2\n3 0\n2 5\n", "x", "0\n1\n1 x\n"])
def test_damaged_epochs_are_found_again_in_the_batches_by_recovery(log: Log, damaged: str) -> None:
    log.close()
    (Path(log.directory) / "leader-epoch-checkpoint").write_text(damaged)
    again = opened(log.directory)
    assert again.epochs.entries == log.epochs.entries


def test_a_replica_learns_where_an_epoch_ended(tmp_path: Path) -> None:
    epochs = LeaderEpochs(RealDisk(), str(tmp_path))
    for epoch, start in ((2, 0), (5, 10), (9, 25)):
        epochs.assign(epoch, start)
    assert [epochs.epoch_at(offset) for offset in (0, 9, 10, 24, 25, 99)] == [2, 2, 5, 5, 9, 9]
    assert epochs.end_offset_of(5, 40) == (5, 25)
    assert epochs.end_offset_of(7, 40) == (5, 25)
    assert epochs.end_offset_of(9, 40) == (9, 40)
    assert epochs.end_offset_of(10, 40) == (-1, -1)
    # A later leader that begins earlier takes back what others had begun there.
    epochs.assign(10, 10)
    assert epochs.entries == (EpochStart(2, 0), EpochStart(10, 10))
    epochs.write_if_changed()
    again = LeaderEpochs(RealDisk(), str(tmp_path))
    again.load()
    assert again.entries == epochs.entries
