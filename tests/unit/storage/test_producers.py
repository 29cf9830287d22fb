"""What a log remembers of producers: sequences, epochs, transactions, expiry, and all that across restarts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from levada.model.errors import (
    DuplicateSequence,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)
from levada.storage.loading import LogState
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.producers import AppendedBatch, EndMarker, Origin, Producers, ProducerState, java_order
from tests.logs import SMALL, T0, append, batch, clean, end_transaction, killed, marker, opened, values_of

LAST = 2**31 - 1
Send = Callable[..., tuple[int, bool]]


def sender(log: Log, producer_id: int = 7) -> Send:
    """Sends `count` records from a sequence on: (base offset, whether it was a repetition)."""

    def send(sequence: int, *, count: int = 1, epoch: int = 0, is_transactional: bool = False) -> tuple[int, bool]:
        appended = append(
            log,
            *[b"%d" % (sequence + number) for number in range(count)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        return appended.base_offset, appended.is_duplicate

    return send


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return opened(tmp_path / "t-0", LogConfig())


def test_scenario_10_the_next_sequence_is_appended_a_repeated_one_is_not_and_a_gap_is_refused(log: Log) -> None:
    send = sender(log)
    assert send(0, count=6) == (0, False)
    assert send(6) == (6, False)
    assert send(6) == (6, True)
    assert log.end_offset == 7
    with pytest.raises(OutOfOrderSequence):
        send(8)
    known = log.producers.get(7)
    assert known is not None
    assert known.last_sequence == 6
    assert log.end_offset == 7
    assert send(7) == (7, False)


def test_scenario_10_the_last_five_batches_are_known_and_older_ones_are_duplicate_sequence_numbers(log: Log) -> None:
    send = sender(log)
    for number in range(7):
        send(number * 2, count=2)
    for number in range(2, 7):
        assert send(number * 2, count=2) == (number * 2, True)
    for number in range(2):
        with pytest.raises(DuplicateSequence):
            send(number * 2, count=2)
    assert log.end_offset == 14


def test_scenario_11_without_idempotence_a_repeated_request_lands_behind_the_others(log: Log) -> None:
    for number in (1, 2, 4, 5, 3):
        append(log, b"%d" % number)
    assert values_of(log) == [b"1", b"2", b"4", b"5", b"3"]


def test_scenario_11_with_idempotence_the_order_is_kept(log: Log) -> None:
    send = sender(log)
    in_flight = [0, 1, 2, 3, 4]
    failed_once = False
    while in_flight:
        refused = []
        for sequence in in_flight:
            if sequence == 2 and not failed_once:
                failed_once = True
                refused.append(sequence)
                continue
            try:
                send(sequence)
            except OutOfOrderSequence:
                refused.append(sequence)
        in_flight = refused
    assert values_of(log) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_repetition_must_match_a_whole_batch(log: Log) -> None:
    send = sender(log)
    send(0, count=4)
    send(4)
    for sequence, count in ((0, 3), (1, 3), (2, 1)):
        with pytest.raises((OutOfOrderSequence, DuplicateSequence)):
            send(sequence, count=count)


def test_a_new_epoch_begins_with_sequence_zero_and_fences_the_old(log: Log) -> None:
    send = sender(log)
    send(0)
    with pytest.raises(OutOfOrderSequence):
        send(1, epoch=1)
    assert send(0, epoch=1) == (1, False)
    with pytest.raises(InvalidProducerEpoch):
        send(1, epoch=0)
    assert send(0, epoch=1) == (1, True)


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert sender(log)(500) == (0, False)


def test_producers_do_not_disturb_each_other(log: Log) -> None:
    mine, other = sender(log, 1), sender(log, 2)
    assert [mine(0), other(0), mine(1), other(1)] == [(number, False) for number in range(4)]
    assert mine(0) == (0, True)


def test_sequences_wrap_to_zero(log: Log) -> None:
    send = sender(log)
    assert send(LAST - 1, count=3) == (0, False)
    assert send(1) == (3, False)
    assert send(LAST - 1, count=3) == (0, True)
    with pytest.raises(OutOfOrderSequence):
        send(LAST)


def test_followers_and_coordinators_are_not_judged(log: Log) -> None:
    sender(log)(0)
    late = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=9)
    assert log.append(late, leader_epoch=0, origin=Origin.REPLICATION, now_ms=T0).base_offset == 1


def test_plain_records_are_refused_within_a_transaction(log: Log) -> None:
    send = sender(log)
    send(0, is_transactional=True)
    with pytest.raises(InvalidTransactionState):
        send(1)
    end_transaction(log, 7, commit=True)
    assert send(1) == (2, False)


def test_the_stable_end_waits_for_the_oldest_transaction(log: Log) -> None:
    first, second = sender(log, 1), sender(log, 2)
    append(log, b"plain")
    first(0, is_transactional=True)
    second(0, is_transactional=True)
    assert log.last_stable_offset == 1
    end_transaction(log, 2, commit=False)
    assert log.last_stable_offset == 1
    end_transaction(log, 1, commit=True)
    assert log.last_stable_offset == log.end_offset == 5
    (aborted,) = log.aborted_transactions(0, 5)
    assert (aborted.producer_id, aborted.first_offset, aborted.last_offset, aborted.last_stable_offset) == (2, 2, 3, 1)


def test_a_marker_above_the_high_watermark_ends_nothing_for_readers(log: Log) -> None:
    send = sender(log)
    send(0, is_transactional=True)
    log.append(marker(7, commit=True), leader_epoch=0, origin=Origin.COORDINATOR, now_ms=T0)
    assert (log.high_watermark, log.last_stable_offset) == (1, 0)
    log.set_high_watermark(2)
    assert log.last_stable_offset == 2


def test_an_old_coordinator_is_fenced(log: Log) -> None:
    sender(log)(0, is_transactional=True)
    new = marker(7, commit=True, coordinator_epoch=3)
    log.append(new, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=T0)
    with pytest.raises(TransactionCoordinatorFenced):
        end_transaction(log, 7, commit=True)


def test_an_empty_transaction_leaves_no_entry(log: Log) -> None:
    end_transaction(log, 7, commit=False)
    assert log.aborted_transactions(0, 10) == []
    assert not (Path(log.directory) / f"{0:020d}.txnindex").exists()


def test_silent_producers_expire_unless_a_transaction_is_open() -> None:
    producers = Producers()
    for producer_id, timestamp_ms, is_transactional in ((1, 100, False), (2, 200, False), (3, 100, True)):
        one = AppendedBatch(last_sequence=0, last_offset=producer_id, offset_delta=0, timestamp_ms=timestamp_ms)
        producers.note_data(producer_id, 0, one, is_transactional=is_transactional)
    producers.expire(now_ms=1_099, expiration_ms=1_000)
    assert [producers.get(number) is not None for number in (1, 2, 3)] == [True, True, True]
    producers.expire(now_ms=1_100, expiration_ms=1_000)
    assert [producers.get(number) is not None for number in (1, 2, 3)] == [False, True, True]
    assert producers.first_unstable_offset == 3


def test_producers_that_expired_while_the_log_was_closed_are_not_restored(tmp_path: Path) -> None:
    config = LogConfig(producer_id_expiration_ms=1_000)
    log = opened(tmp_path / "t-0", config)
    append(log, b"a", producer_id=1, producer_epoch=0, base_sequence=0, at_ms=T0)
    append(log, b"b", producer_id=2, producer_epoch=0, base_sequence=0, at_ms=T0 + 500)
    log.close()
    again = opened(tmp_path / "t-0", config, state=clean(log), now_ms=T0 + 1_200)
    assert again.producers.get(1) is None
    assert sender(again, 2)(1) == (2, False)
    with pytest.raises(OutOfOrderSequence):
        sender(again, 2)(9)


@pytest.mark.parametrize("stop", [clean, killed])
def test_sequences_go_on_after_a_restart_and_the_last_batch_is_still_known(tmp_path: Path, stop: object) -> None:
    log = opened(tmp_path / "t-0")
    send = sender(log)
    for sequence in range(40):
        send(sequence)
    assert len(log.segments) > 2
    if stop is clean:
        log.close()
    again = opened(tmp_path / "t-0", state=stop(log))  # type: ignore[operator]
    send = sender(again)
    assert send(39) == (39, True)
    with pytest.raises(OutOfOrderSequence):
        send(41)
    assert send(40) == (40, False)


@pytest.mark.parametrize("stop", [clean, killed])
def test_an_open_transaction_outlives_a_restart(tmp_path: Path, stop: object) -> None:
    log = opened(tmp_path / "t-0")
    send = sender(log)
    append(log, b"before")
    for sequence in range(40):
        send(sequence, is_transactional=True)
    if stop is clean:
        log.close()
    again = opened(tmp_path / "t-0", state=stop(log))  # type: ignore[operator]
    assert (again.producers.first_unstable_offset, again.last_stable_offset) == (1, 1)
    end_transaction(again, 7, commit=False)
    (aborted,) = again.aborted_transactions(0, 100)
    assert (aborted.first_offset, aborted.last_offset) == (1, 41)
    assert again.last_stable_offset == 42


@pytest.mark.parametrize("damage", ["all", "newest", "none"])
def test_producers_of_segments_that_need_no_recovery_are_known_after_a_crash(tmp_path: Path, damage: str) -> None:
    """Also when the snapshot where recovery begins is gone, and flushed segments have to be read for it."""
    log = opened(tmp_path / "t-0")
    transactional = sender(log, 1)
    transactional(0, is_transactional=True)
    plain = sender(log, 2)
    for sequence in range(40):
        plain(sequence)
        if log.end_offset == 20:
            log.flush()
    end_transaction(log, 1, commit=False)
    assert 0 < log.segments[1].base_offset < log.recovery_point < log.active.base_offset
    snapshots = sorted((tmp_path / "t-0").glob("*.snapshot"))
    below = [path for path in snapshots if int(path.name[:20]) <= log.recovery_point]
    for path in {"all": snapshots, "newest": [path for path in snapshots if path not in below[:-1]], "none": []}[
        damage
    ]:
        path.write_bytes(b"damaged")
    again = opened(tmp_path / "t-0", state=killed(log))
    assert [(one.producer_id, one.first_offset) for one in again.aborted_transactions(0, 100)] == [(1, 0)]
    assert again.producers.entries() == log.producers.entries()
    assert sender(again, 2)(39) == (40, True)


def test_a_snapshot_keeps_only_the_last_batch(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", SMALL)
    send = sender(log)
    send(0)
    send(1)
    log.close()
    again = opened(tmp_path / "t-0", SMALL, state=clean(log))
    known = again.producers.get(7)
    assert known is not None
    assert [one.last_sequence for one in known.batches] == [1]


def test_all_batches_that_were_under_way_in_a_crash_are_known_after_it(tmp_path: Path) -> None:
    """Else the first that is repeated is out of order, and its producer begins anew: it would be there twice."""
    log = opened(tmp_path / "t-0", LogConfig())
    send = sender(log)
    for sequence in range(4):
        send(sequence)
    for _ in range(2):
        log = opened(tmp_path / "t-0", LogConfig(), state=killed(log))
        assert [sender(log)(sequence) for sequence in range(4)] == [(offset, True) for offset in range(4)]


@pytest.mark.parametrize("how", [killed, clean])
@pytest.mark.parametrize("rolled_after", [1, 2, 3, 4])
def test_they_are_known_too_when_a_segment_or_the_broker_ended_among_them(
    tmp_path: Path, how: Callable[[Log], LogState], rolled_after: int
) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for sequence in range(4):
        sender(log)(sequence)
        sender(log, 8)(sequence)
        if sequence + 1 == rolled_after:
            log.roll(log.end_offset, T0)
    if how is clean:
        log.close()
    again = opened(tmp_path / "t-0", LogConfig(), state=how(log))
    assert [sender(again)(sequence) for sequence in range(4)] == [(2 * sequence, True) for sequence in range(4)]
    assert [sender(again, 8)(sequence) for sequence in range(5)] == [
        *((2 * sequence + 1, True) for sequence in range(4)),
        (8, False),
    ]


def test_after_a_restart_too_no_more_than_five_batches_are_recalled(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for sequence in range(8):
        sender(log)(sequence)
    log.close()
    again = opened(tmp_path / "t-0", LogConfig(), state=clean(log))
    assert sender(again)(3) == (3, True)
    with pytest.raises(DuplicateSequence):
        sender(again)(2)


def test_what_was_never_written_is_not_recalled(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    for sequence in (1, 2, 3):
        sender(log)(sequence)
    log.close()
    again = opened(tmp_path / "t-0", LogConfig(), state=clean(log))
    with pytest.raises(OutOfOrderSequence):
        sender(again)(0)
    assert again.end_offset == 3


def test_another_epochs_batches_are_not_recalled(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0", LogConfig())
    sender(log)(0, count=3)
    sender(log)(0, epoch=1, count=3)
    log.close()
    again = opened(tmp_path / "t-0", LogConfig(), state=clean(log))
    with pytest.raises(OutOfOrderSequence):
        sender(again)(1, epoch=1)
    assert sender(again)(0, epoch=1, count=3) == (3, True)


def test_snapshots_list_producers_as_a_java_map_does() -> None:
    ids = [5, 1, 16, 33, 2, 1 << 32]
    assert java_order({one: ProducerState(0) for one in ids}) == [16, 1, 33, 1 << 32, 2, 5]


def test_a_marker_begins_its_producers_epoch() -> None:
    producers = Producers()
    one = AppendedBatch(last_sequence=0, last_offset=0, offset_delta=0, timestamp_ms=T0)
    producers.note_data(7, 0, one, is_transactional=True)
    ended = producers.note_marker(7, 1, 1, EndMarker(is_commit=True, coordinator_epoch=0, timestamp_ms=T0))
    assert ended is not None
    assert (ended.first_offset, ended.last_offset, ended.is_aborted) == (0, 1, False)
    with pytest.raises(InvalidProducerEpoch):
        producers.check_data(7, 0, 1, 1, is_transactional=True)
    producers.check_data(7, 1, 0, 0, is_transactional=True)


def test_a_batch_that_was_refused_when_those_after_it_were_taken_does_not_pass_for_written(log: Log) -> None:
    send = sender(log)
    # A new producer may begin anywhere, so these are taken though the batch before them was not.
    for sequence in (1, 2, 3, 4):
        send(sequence)
    with pytest.raises(OutOfOrderSequence):
        send(0)
    assert log.end_offset == 4


def test_a_coordinator_cannot_append_for_a_producer_of_an_older_epoch(log: Log) -> None:
    def commit(epoch: int) -> None:
        """As a group coordinator writes offsets of a transaction: without sequences."""
        one = batch(b"offset", producer_id=7, producer_epoch=epoch, is_transactional=True)
        log.append(one, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=T0)
        log.set_high_watermark(log.end_offset)

    commit(0)
    commit(0)
    end_transaction(log, 7, commit=False, epoch=1)
    with pytest.raises(InvalidProducerEpoch):
        commit(0)
    assert log.last_stable_offset == log.end_offset, "a transaction that is never ended"
    commit(1)
    commit(2)
