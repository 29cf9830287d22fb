"""Gaps that cleaning has left are no damage, also in a log that is not compacted any more."""

from pathlib import Path

import pytest

from levada.records import build_batch
from levada.storage.loading import LogState, open_log
from levada.world.real_disk import RealDisk
from tests.logs import SMALL, T0, values_of


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A segment of which only the last record is left, and one after it."""
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / f"{0:020d}.log").write_bytes(build_batch([(T0, None, b"kept", ())], base_offset=4))
    (path / f"{5:020d}.log").write_bytes(build_batch([(T0, None, b"next", ())], base_offset=5))
    return path


@pytest.mark.parametrize("recovery_point", [5, 6])
def test_gaps_below_the_recovery_point_stay_though_the_segment_ends_right_there(
    directory: Path, recovery_point: int
) -> None:
    log, cuts = open_log(RealDisk(), str(directory), SMALL, now_ms=T0, state=LogState(recovery_point=recovery_point))
    assert cuts == []
    assert values_of(log) == [b"kept", b"next"]


def test_gaps_above_the_recovery_point_are_damage(directory: Path) -> None:
    log, cuts = open_log(RealDisk(), str(directory), SMALL, now_ms=T0, state=LogState(recovery_point=4))
    assert [cut.reason for cut in cuts] == ["offset 4 where 0 was expected"]
    assert values_of(log) == []
