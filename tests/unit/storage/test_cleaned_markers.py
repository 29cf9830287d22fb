"""Markers of a group commit in a compacted log: cleaned as any others, and never taken for what they are not."""

from collections.abc import Sequence
from pathlib import Path

from levada.records import BatchView
from levada.storage.log import Log
from levada.storage.marker_sets import tie_of
from levada.storage.marker_writes import MarkerWrite
from levada.storage.producers import Origin, Producers, TransactionEnd
from tests.logs import T0, batches_from, killed, opened
from tests.unit.storage.test_cleaning import CONFIG, Compacted

GROUP = bytes(range(16))
MEMBERS = (101, 102, 103)
LONG_MS = 10 * CONFIG.delete_retention_ms


def ends(members: Sequence[int]) -> list[TransactionEnd]:
    return [TransactionEnd(one, 0, True, 0, 0) for one in members]


def begun(directory: Path) -> Compacted:
    log = Compacted(directory)
    for member in MEMBERS:
        log.append((f"{member}", "new"), producer_id=member)
    return log


def commit(log: Compacted, members: Sequence[int] = MEMBERS) -> None:
    log.log.append_markers(ends(members), leader_epoch=0, now_ms=T0, group=GROUP)
    log.log.set_high_watermark(log.log.end_offset)


def commit_in_part(log: Compacted, count: int) -> None:
    """What is left of a write that was torn."""
    for data in MarkerWrite(Producers(), ends(MEMBERS), GROUP, T0).batches(0, 0)[:count]:
        log.log.append(BatchView(data), leader_epoch=0, origin=Origin.REPLICATION, now_ms=T0)
    log.log.set_high_watermark(log.log.end_offset)


def clean_often(log: Compacted) -> None:
    """Until the horizons of all markers are behind; a closed segment in front of the active one has no say in it."""
    log.roll()
    for number in range(3):
        log.append((f"filler {number}", "."))
        log.roll()
        log.clean(now_ms=T0 + number * LONG_MS)


def markers(log: Log) -> list[tuple[int, bool]]:
    """The producers of all markers, and whether each is tied to others."""
    found = []
    position = log.start_offset
    while position < log.end_offset and (batches := batches_from(log, position)):
        found += [
            (one.producer_id, tie_of(one.records()[0]) is not None)
            for one in batches
            if one.is_control and one.record_count
        ]
        position = batches[-1].next_offset
    return found


def read_anew(log: Compacted) -> Log:
    """As a broker reads a log that has no snapshots."""
    for path in Path(log.log.directory).glob("*.snapshot"):
        path.unlink()
    again = opened(log.log.directory, CONFIG, state=killed(log.log))
    again.set_high_watermark(again.end_offset)
    return again


def test_a_marker_whose_companions_are_cleaned_away_still_ends_its_transaction(tmp_path: Path) -> None:
    log = begun(tmp_path)
    commit(log)
    log.append(("102", "newer"), ("103", "newer"))
    assert markers(log.log) == [(one, True) for one in MEMBERS]
    clean_often(log)
    assert (101, False) in markers(log.log)
    assert not any(is_tied for _, is_tied in markers(log.log))
    again = read_anew(log)
    assert again.last_stable_offset == again.end_offset
    assert [(key, value) for _, key, value in log.records()[:3]] == [
        ("101", "new"),
        ("102", "newer"),
        ("103", "newer"),
    ]


def test_markers_of_a_torn_write_are_cleaned_away_and_those_of_the_repeated_one_count(tmp_path: Path) -> None:
    log = begun(tmp_path)
    commit_in_part(log, 2)
    log.append(("plain", "1"))
    commit(log)
    clean_often(log)
    assert [producer for producer, _ in markers(log.log)] == list(MEMBERS)
    again = read_anew(log)
    assert again.last_stable_offset == again.end_offset


def test_nothing_is_cleaned_of_a_group_whose_write_is_torn(tmp_path: Path) -> None:
    log = begun(tmp_path)
    commit_in_part(log, 2)
    log.append(("101", "newer"))
    clean_often(log)
    assert markers(log.log) == [(101, True), (102, True)]
    assert log.log.last_stable_offset == 0
    again = read_anew(log)
    assert again.last_stable_offset == 0


def test_a_torn_commit_does_not_bring_back_what_was_aborted_after_it(tmp_path: Path) -> None:
    log = begun(tmp_path)
    commit_in_part(log, 1)
    log.end(101, commit=False)
    commit(log, MEMBERS[1:])
    assert log.log.last_stable_offset == log.log.end_offset
    clean_often(log)
    assert "101" not in [key for _, key, _ in log.records()]
    again = read_anew(log)
    assert again.last_stable_offset == again.end_offset
