"""One simulated node through crashes: the promises hold, every run can be repeated, and broken code is caught."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from levada.controller.brokers import allocate_producer_ids
from levada.controller.controller import DECIDE
from levada.controller.decision import Context, ControllerDecision
from levada.metadata.image import Image
from levada.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from levada.records import BatchView
from levada.records.errors import CorruptBatch
from levada.sim.checkers import CheckFailed, PartitionHistory
from levada.sim.frame import run_scenario
from levada.sim.scenarios.single_node import SingleNode
from levada.storage import recovery
from levada.storage.log import Log
from levada.storage.producers import Producers
from levada.storage.segment import Segment

SEEDS = range(50)
BLOCK = 10


@pytest.mark.parametrize("first", range(SEEDS.start, SEEDS.stop, BLOCK))
def test_every_seed_keeps_the_promises_and_leaves_the_same_trace_in_another_process(first: int) -> None:
    digests = {}
    for seed in range(first, first + BLOCK):
        outcome, _ = run_scenario(SingleNode, seed)
        assert outcome.counts["crashes"] == 4
        digests[str(seed)] = outcome.digest
    command = [sys.executable, "-m", "levada.sim", "--first", str(first), "--count", str(BLOCK), "--json"]
    environment = {**os.environ, "PYTHONHASHSEED": str(first + 1)}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=200)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout) == digests


def test_other_seeds_do_other_things() -> None:
    assert run_scenario(SingleNode, 0)[0].digest != run_scenario(SingleNode, 1)[0].digest


def is_caught(seeds: range = range(12)) -> bool:
    """Whether a checker objects to some seed, or its reader meets a damaged batch.

    Any other error is a seeded bug that no longer fits the code it is put into, and fails the test.
    """
    for seed in seeds:
        try:
            run_scenario(SingleNode, seed)
        except (CheckFailed, CorruptBatch):
            return True
    return False


def test_a_broker_that_acknowledges_what_it_did_not_write_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    written = Segment.append
    calls = 0

    def forgetful(self: Segment, pieces: Any, size: int, last_offset: int, *rest: int) -> None:
        nonlocal calls
        calls += 1
        if calls % 50 == 0:
            self.next_offset = last_offset + 1
        else:
            written(self, pieces, size, last_offset, *rest)

    monkeypatch.setattr(Segment, "append", forgetful)
    assert is_caught()


def test_a_recovery_that_trusts_damaged_batches_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchView, "crc_is_valid", lambda self: True)
    assert is_caught()


def test_a_recovery_that_cuts_too_much_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = recovery.sound_batches

    def shy(file: Any, next_offset: int, **options: bool) -> Any:
        batches: list[BatchView] = []
        try:
            batches.extend(sound(file, next_offset, **options))
        except recovery.TornTail:
            pass
        yield from batches[:-1]
        if batches:
            raise recovery.TornTail(sum(batch.size for batch in batches[:-1]), "shy")

    monkeypatch.setattr(recovery, "sound_batches", shy)
    assert is_caught()


def test_a_log_that_forgets_its_producers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levada.storage.log.check_sequences", lambda *_: None)
    monkeypatch.setattr(Producers, "duplicate_of", lambda *_: None)
    assert is_caught(range(50))


def test_an_acknowledgement_before_its_flush_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Log, "awaits_flush", False)
    assert is_caught(range(50))


def test_producer_ids_given_twice_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unwritten(
        image: Image, request: AllocateProducerIdsRequest, context: Context
    ) -> ControllerDecision[AllocateProducerIdsResponse]:
        return ControllerDecision(allocate_producer_ids(image, request, context).reply)

    monkeypatch.setitem(DECIDE, AllocateProducerIdsRequest, unwritten)
    assert is_caught(range(50))


def test_the_checker_knows_a_hole_from_a_lost_end() -> None:
    def history() -> PartitionHistory:
        made = PartitionHistory()
        for offset, value in enumerate((b"a", b"b", b"c")):
            made.send(value)
            made.acknowledge(offset, value)
        made.send(b"x")
        return made

    history().check([(0, b"a"), (1, b"b"), (2, b"c")])
    for broken in ([(0, b"a"), (1, b"b")], [(0, b"a"), (1, b"x"), (2, b"c")], [(0, b"a"), (2, b"c")]):
        with pytest.raises(CheckFailed):
            history().check(broken)
    after_power_cut = history()
    after_power_cut.lose_power()
    after_power_cut.check([(0, b"a"), (1, b"x")])
    with_hole = history()
    with_hole.lose_power()
    with pytest.raises(CheckFailed, match="behind it"):
        with_hole.check([(0, b"a"), (1, b"x"), (2, b"c")])
