"""Transactions that have ended above the high watermark: they are not stable before it has passed their markers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from levada.storage.cleaning.dirty import dirty_part
from levada.storage.loading import LogState
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.producers import Origin
from tests.logs import SMALL, T0, batch, clean, killed, marker, opened, read_all

ENDED, OPEN = 7, 8
SEEN = 6
"""The high watermark: behind the first records of the transaction, before its marker."""
STOPS = (clean, killed)


def written(log: Log, *, commit: bool = True, rolls: bool = False) -> Log:
    """Two records, four of a transaction, four others, and the transaction's marker; the replicas have six."""

    def write(count: int, **settings: Any) -> None:
        for number in range(count):
            sequence = {"base_sequence": number} if settings else {}
            one = batch(b"value", **settings, **sequence)
            log.append(one, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
        if rolls:
            log.roll(log.end_offset, T0)

    write(2)
    write(4, producer_id=ENDED, producer_epoch=0, is_transactional=True)
    write(4)
    log.append(marker(ENDED, commit=commit), leader_epoch=0, origin=Origin.COORDINATOR, now_ms=T0)
    log.set_high_watermark(SEEN)
    assert log.last_stable_offset == 2
    return log


def reopened(log: Log, state: LogState, config: LogConfig = SMALL) -> Log:
    log.close()
    return opened(log.directory, config, state=state)


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
def test_after_a_restart_it_is_stable_when_the_replicas_have_its_marker(
    tmp_path: Path, stop: Callable[[Log], LogState], commit: bool, rolls: bool
) -> None:
    log = written(opened(tmp_path / "t-0"), commit=commit, rolls=rolls)
    for _ in range(2):
        log = reopened(log, stop(log))
        assert (log.high_watermark, log.last_stable_offset) == (SEEN, 2)
    log.set_high_watermark(10)
    assert log.last_stable_offset == 2
    log.set_high_watermark(11)
    assert log.last_stable_offset == 11
    log.close()


def test_one_that_ended_below_the_high_watermark_is_stable_at_once(tmp_path: Path) -> None:
    log = written(opened(tmp_path / "t-0"))
    log = reopened(log, replace(clean(log), high_watermark=11))
    assert log.last_stable_offset == 11
    log.close()


def test_it_is_not_stable_after_what_lies_behind_it_was_cut_off(tmp_path: Path) -> None:
    log = written(opened(tmp_path / "t-0"), rolls=True)
    log.roll(log.end_offset, T0)
    log.append(batch(b"value"), leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
    assert log.truncate(11, T0)
    assert (log.end_offset, log.high_watermark, log.last_stable_offset) == (11, SEEN, 2)
    log.close()


@pytest.mark.parametrize("stop", STOPS)
def test_a_cleaning_leaves_its_records_alone_after_a_restart(tmp_path: Path, stop: Callable[[Log], LogState]) -> None:
    config = replace(SMALL, is_compacted=True)
    log = written(opened(tmp_path / "t-0", config), rolls=True)
    assert [segment.base_offset for segment in log.segments] == [0, 2, 6, 10]
    log = reopened(log, stop(log), config)
    assert dirty_part(log, None, T0).first_uncleanable == 2
    log.close()


def test_where_a_later_one_is_open_that_counts_too(tmp_path: Path) -> None:
    log = written(opened(tmp_path / "t-0"), rolls=True)
    of_other = batch(b"value", producer_id=OPEN, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.append(of_other, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
    log = reopened(log, clean(log))
    assert log.last_stable_offset == 2
    log.set_high_watermark(12)
    assert log.last_stable_offset == 11
    log.close()


@pytest.mark.parametrize("damaged", [2, 6])
def test_its_first_record_is_found_without_the_snapshots_before_it(tmp_path: Path, damaged: int) -> None:
    log = written(opened(tmp_path / "t-0"), rolls=True)
    state = clean(log)
    log.close()
    (tmp_path / "t-0" / f"{damaged:020d}.snapshot").write_bytes(b"nothing")
    log = opened(log.directory, state=state)
    assert log.last_stable_offset == 2
    log.close()


def test_damage_above_the_high_watermark_does_not_keep_a_clean_log_shut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = written(opened(tmp_path / "t-0"), rolls=True)
    state = clean(log)
    log.close()
    records = tmp_path / "t-0" / f"{6:020d}.log"
    records.write_bytes(bytes(records.stat().st_size))
    log = opened(log.directory, state=state)
    assert "above the high watermark" in caplog.text
    assert [offset for offset, _ in read_all(log, 10)] == []
    log.append(batch(b"value"), leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
    assert [offset for offset, _ in read_all(log, 10)] == [11]
    log.close()
