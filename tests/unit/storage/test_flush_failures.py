"""A sync that fails is told of once: no other flush that was under way may count what it covered as durable."""

import errno
from pathlib import Path

import pytest

from penstock.model.errors import KafkaStorageError
from tests.logs import append, opened


def test_a_flush_beside_one_that_fails_does_not_count(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, b"v")
    first, second = log.begin_flush(), log.begin_flush()
    log.fail_flush(OSError(errno.EIO, "the device is gone"))
    with pytest.raises(KafkaStorageError, match="the device is gone"):
        log.end_flush(second)
    with pytest.raises(KafkaStorageError):
        log.end_flush(first)
    assert log.recovery_point == 0


def test_flushes_that_overlap_count_once_they_end(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, b"v")
    first = log.begin_flush()
    append(log, b"w")
    second = log.begin_flush()
    log.end_flush(second)
    log.end_flush(first)
    assert log.recovery_point == 2
