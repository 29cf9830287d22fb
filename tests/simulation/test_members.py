"""Brokers that share a coordinator: one log that all agree upon, leases that end in time, and broken code is caught."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from levada.doors.local import LocalDoor
from levada.metadata.door import MetadataBatch, Token
from levada.metadata.image import Image
from levada.metadata.records import ConfigRecord, RegisterBrokerRecord
from levada.node.controller_loop import ControllerLoop
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.metadata_ledger import MetadataLedger
from levada.sim.frame import run_scenario
from levada.sim.scenarios.members import Members

SEEDS = range(20)
BLOCK = 5
TWICE = 5
"""So many of them run again in another process."""


# Seed 9 also stops a broker whose signs of life cannot be written.
@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BLOCK))
def test_brokers_of_every_seed_agree_on_what_clients_were_told(first: int) -> None:
    digests = {}
    for seed in range(first, first + BLOCK):
        outcome, _ = run_scenario(Members, seed)
        assert outcome.counts["brokers"] in (3, 5)
        assert outcome.counts["changes"] > 20
        digests[str(seed)] = outcome.digest
    if first >= TWICE:
        return
    command = [sys.executable, "-m", "levada.sim", "--scenario", "members", "--json"]
    command += ["--first", str(first), "--count", str(BLOCK)]
    environment = {**os.environ, "PYTHONHASHSEED": str(first + 1)}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=200)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == digests


@pytest.mark.parametrize(
    "seed",
    [
        # The disk was full when a broker registered, and the controller, another broker, could not write it down.
        30,
        # The controller was killed between a broker's registration and its first heartbeat.
        95,
    ],
)
def test_a_broker_registers_again_where_a_controller_could_not_answer(seed: int) -> None:
    run_scenario(Members, seed)


def is_caught(match: str, seeds: Sequence[int]) -> bool:
    """Whether a checker objects to some seed, in these words."""
    for seed in seeds:
        try:
            run_scenario(Members, seed)
        except CheckFailed as failure:
            if match in str(failure):
                return True
    return False


# The first of the seeds that meet the bug now, and many after it for when the code has changed.


def test_a_deposed_controller_that_renews_leases_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def trusting(self: ControllerLoop, waiting: list[Any]) -> bool:
        return True

    monkeypatch.setattr(ControllerLoop, "_confirm", trusting)
    assert is_caught("has a lease, but is", range(18, 80))


def test_a_controller_that_does_not_look_for_its_successor_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    append = LocalDoor.append

    async def blind(self: LocalDoor, token: Token, expected_offset: int, records: Sequence[Any]) -> None:
        self._refuse_if_over = lambda *_: None  # type: ignore[method-assign]
        try:
            await append(self, token, expected_offset, records)
        finally:
            del self._refuse_if_over

    monkeypatch.setattr(LocalDoor, "append", blind)
    assert is_caught("was told that epoch", range(1, 60))


RECORD = ConfigRecord(resource_type=2, resource_name="topic", name="key", value="value")
OTHER = ConfigRecord(resource_type=2, resource_name="topic", name="key", value="other")


def ledger(*batches: MetadataBatch) -> MetadataLedger:
    made = MetadataLedger()
    made.elect("one", 1)
    made.elect("two", 2)
    for batch in batches:
        made.learn("reader", batch)
    assert made.failure is None
    return made


def failure_of(made: MetadataLedger) -> str:
    assert made.failure is not None
    return str(made.failure)


def test_the_ledger_knows_two_logs_from_one() -> None:
    made = ledger(MetadataBatch(1, 0, (RECORD,)))
    made.learn("other", MetadataBatch(1, 0, (RECORD,)))
    assert made.failure is None
    made.learn("other", MetadataBatch(1, 0, (OTHER,)))
    assert "at offset 0 is" in failure_of(made)
    gap = ledger()
    gap.learn("other", MetadataBatch(1, 1, (RECORD,)))
    assert "the log goes on at 0" in failure_of(gap)
    back = ledger(MetadataBatch(2, 0, (RECORD,)))
    back.learn("other", MetadataBatch(1, 1, (RECORD,)))
    assert "after epoch 2" in failure_of(back)


def test_the_ledger_knows_one_controller_from_two() -> None:
    made = ledger()
    made.elect("three", 2)
    assert "there is epoch 2 already" in failure_of(made)
    stranger = ledger()
    stranger.acknowledge("one", MetadataBatch(2, 0, (RECORD,)))
    assert "writes in epoch 2 of two" in failure_of(stranger)
    deposed = ledger()
    deposed.acknowledge("one", MetadataBatch(1, 0, (RECORD,)))
    assert "was deposed by epoch 2" in failure_of(deposed)


def test_the_ledger_knows_an_image_that_no_log_adds_up_to() -> None:
    made = ledger(MetadataBatch(1, 0, (RECORD, RECORD)))
    made.check_image("reader", made.image)
    made.check_image("reader", Image())
    assert made.failure is None
    made.check_image("reader", Image(offset=0))
    assert "where no batch ends" in failure_of(made)
    other = ledger(MetadataBatch(1, 0, (RECORD,)))
    other.check_image("reader", Image(offset=0))
    assert "but the log adds up to" in failure_of(other)


@pytest.mark.parametrize("epoch", [0, 2])
def test_the_ledger_knows_a_broker_epoch_that_is_not_an_offset(epoch: int) -> None:
    made = ledger(MetadataBatch(1, 0, (RECORD,)))
    record = RegisterBrokerRecord(broker_id=1, incarnation_id=bytes(16), broker_epoch=epoch, end_points=[], features=[])
    made.learn("reader", MetadataBatch(1, 1, (record,)))
    assert "is registered as" in failure_of(made)
