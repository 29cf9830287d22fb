"""A compacted log against its model, whatever is done to it, and wherever its process or its machine ends."""

import os

import pytest

from levada.sim import Simulation
from levada.sim.world.incarnation import HostDied
from tests.logs import T0, append, clean, opened
from tests.property.compacted_log import ALL_KEYS, HOST
from tests.property.compacted_log_lives import PowerlessCompactedLog, live
from tests.property.compacted_log_moves import MovingCompactedLog

SOAK = os.environ.get("LEVADA_SOAK") == "1"
SEEDS, BLOCK, STEPS = (4_000 if SOAK else 60), 20, 120


def run(kind: type[MovingCompactedLog], seed: int) -> MovingCompactedLog:
    machine = kind(seed)
    try:
        live(machine, STEPS)
    except Exception as error:
        error.add_note(f"{kind.__name__}, seed {seed}")
        raise
    return machine


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
@pytest.mark.parametrize("kind", [MovingCompactedLog, PowerlessCompactedLog], ids=["killed", "without power"])
def test_a_compacted_log_equals_its_model_wherever_it_is_stopped(kind: type[MovingCompactedLog], first: int) -> None:
    machines = [run(kind, seed) for seed in range(first, first + BLOCK)]
    assert sum(machine.passes for machine in machines) > BLOCK // 2
    assert sum(machine.moves for machine in machines) > BLOCK // 2


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(1038, id="stale bytes are a batch's offset alone"),
        pytest.param(2595, id="records of an abort are cleaned and its marker is lost"),
        pytest.param(3346, id="records of a commit replace others and its marker is lost after a move"),
        pytest.param(3550, id="the same after a stop and a move"),
    ],
)
def test_a_life_that_once_went_wrong_equals_its_model(seed: int) -> None:
    run(PowerlessCompactedLog, seed)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_a_power_cut_behind_the_end_of_an_interrupted_swap_brings_no_old_segment_back(first: int) -> None:
    for seed in range(first, first + 20):
        machine = PowerlessCompactedLog(seed)
        # What a first pass leaves is small enough for several segments to become one.
        for writes in (8, 2):
            for _ in range(writes):
                machine.write()
            machine.end_all()
            machine.log.roll(machine.log.end_offset, machine.now_ms)
            machine.log.set_high_watermark(machine.log.end_offset)
            machine.cleaning = machine.cleaning_of(ALL_KEYS)
            while next(machine.cleaning, "over") != "over" and not (writes == 2 and machine.is_announced):
                pass
        assert machine.is_announced
        machine.sim.crash(HOST, power_loss=False)
        # Most of the operations of an opening lie behind the swap that it finishes.
        machine.sim.crash_at(HOST, disk_operations=machine.chance.randrange(60), power_loss=True)
        with pytest.raises(HostDied):
            machine.open(machine.checkpoint)
        machine.recover()
        machine.close()


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_what_was_written_after_retention_is_on_the_device_when_the_log_is_closed(first: int) -> None:
    for seed in range(first, first + 20):
        machine = PowerlessCompactedLog(seed)
        for _ in range(3):
            machine.write()
        machine.log.roll(machine.log.end_offset, machine.now_ms)
        machine.stop_and_start()
        machine.log.set_high_watermark(machine.log.end_offset)
        machine.log.raise_start(machine.log.end_offset)
        machine.note_start()
        machine.retain()
        machine.write()
        machine.stop_and_start()
        machine.close()


def test_a_log_that_began_anew_knows_its_producers_after_a_stop() -> None:
    disk = Simulation(0).world(HOST).disk
    log = opened("/data/t-0", disk=disk)
    for number in range(5):
        append(log, b"one", b"two", producer_id=1, producer_epoch=0, base_sequence=2 * number)
    log.roll(log.end_offset, T0)
    log.truncate_fully(0, T0)
    append(log, b"one", producer_id=2, producer_epoch=0, base_sequence=0)
    log.close()
    log = opened("/data/t-0", disk=disk, state=clean(log))
    assert append(log, b"one", producer_id=2, producer_epoch=0, base_sequence=0).is_duplicate
