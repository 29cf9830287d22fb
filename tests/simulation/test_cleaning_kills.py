"""A node that dies at any disk operation of a cleaning, by a kill or without power: nothing lost, nothing back."""

import os

import pytest

from levada.sim.world.disk import SimFile
from levada.storage import loading
from tests.simulation.cleaned_node import Death, operations_of_a_cleaning, run_cleaned_node

SOAK = os.environ.get("LEVADA_SOAK") == "1"
SEEDS = range(1, 11) if SOAK else range(1, 2)
STRIDE = 1 if SOAK else 6


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "without power"])
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_back_wherever_a_cleaning_dies(seed: int, power_loss: bool) -> None:
    operations = operations_of_a_cleaning(seed)
    assert len(operations) > 80
    # The two ways to die take turns.
    for operation in operations[STRIDE // 2 * power_loss :: STRIDE]:
        scenario, _ = run_cleaned_node(seed, Death(operation, power_loss))
        assert scenario.has_died


def is_caught(*, power_loss: bool) -> bool:
    """Whether a death in the second half of a cleaning, where the swaps are, does harm that is seen."""
    operations = operations_of_a_cleaning(1)
    for operation in operations[len(operations) // 2 :]:
        try:
            run_cleaned_node(1, Death(operation, power_loss))
        except Exception:
            return True
    return False


def test_new_segments_that_are_not_synced_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sync = SimFile.sync

    def forgetful(self: SimFile) -> None:
        if not self.path.endswith(".cleaned"):
            sync(self)

    monkeypatch.setattr(SimFile, "sync", forgetful)
    assert is_caught(power_loss=True)


def test_swaps_that_are_not_finished_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(disk: object, directory: str, swaps: list[str]) -> None:
        for name in swaps:
            disk.remove(f"{directory}/{name}")  # type: ignore[attr-defined]

    monkeypatch.setattr(loading, "_finish_swaps", forget)
    assert is_caught(power_loss=False)
