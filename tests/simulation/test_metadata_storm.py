"""Topics through crashes and power cuts: what was acknowledged is there, what was under way is whole or not at all."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.doors.local import LocalDoor
from penstock.metadata.door import Token
from penstock.sim.metadata_storm import run_metadata_storm

SEEDS = range(8)


def run_all(seeds: range) -> None:
    for seed in seeds:
        run_metadata_storm(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_topics_survive_crashes_whole(seed: int) -> None:
    assert run_metadata_storm(seed)[0].crashes == 4


def test_equal_seeds_do_equal_things() -> None:
    assert run_metadata_storm(3) == run_metadata_storm(3)


def test_a_door_that_does_not_sync_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    appended = LocalDoor.append

    async def unsynced(self: LocalDoor, token: Token, expected_offset: int, records: Sequence[Any]) -> None:
        async_disk = self._async_disk

        class Forgetful:
            async def sync(self, file: Any) -> None:
                pass

        self._async_disk = Forgetful()  # type: ignore[assignment]
        try:
            await appended(self, token, expected_offset, records)
        finally:
            self._async_disk = async_disk

    monkeypatch.setattr(LocalDoor, "append", unsynced)
    with pytest.raises(Exception, match=r"should be one of|begins at offset"):
        run_all(range(50))
