"""A process that dies, or a machine without power, at every step of a cleaning: the log is the old or the new one."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from levada.records import BatchView, build_batch
from levada.sim.world import Simulation
from levada.sim.world.incarnation import HostDied
from levada.storage.cleaning.cleaner import Cleaner, Order, SourceSegment
from levada.storage.cleaning.filtering import LastRecord
from levada.storage.cleaning.swapping import Swap
from levada.storage.loading import LogState, open_log
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.producers import Origin
from levada.storage.segment import CLEANED, SUFFIXES
from levada.world.disk import Disk
from tests.cleaning import swap_in
from tests.logs import T0, batches_from, check_indexes, killed

HOST, DIRECTORY = "host", "/data/t-0"
CONFIG = LogConfig(segment_bytes=700, index_interval_bytes=100, max_index_bytes=2_400, is_compacted=True)
ENDING = f".aa{CLEANED}"

Found = dict[int, tuple[bytes | None, bytes | None]]
"""Key and value by offset."""


class Machine:
    """A log with several closed segments, all of it on the device, and what is in it."""

    def __init__(self, seed: int) -> None:
        self.sim = Simulation(seed)
        self.chance = random.Random(seed)
        self.open(LogState())
        self.disk.sync_directory("/data")
        while len(self.log.segments) < 6:
            self._append()
        self.log.flush()
        self.state = killed(self.log)
        self.before = records_of(self.log)

    def open(self, state: LogState) -> None:
        self.disk: Disk = self.sim.world(HOST).disk
        self.files = OpenFiles(self.disk)
        self.log, self.cuts = open_log(self.disk, DIRECTORY, CONFIG, now_ms=T0, state=state, files=self.files)
        self.log.set_high_watermark(self.log.end_offset)

    def _append(self) -> None:
        rows = [
            (T0, b"key-%d" % self.chance.randrange(6), self.chance.choice((b"v" * 20, b"w", None)), ())
            for _ in range(self.chance.randint(1, 4))
        ]
        batch = BatchView(build_batch(rows))
        self.log.append(batch, leader_epoch=0, origin=Origin.CLIENT, now_ms=T0)
        self.log.set_high_watermark(self.log.end_offset)

    def leave_files_of_another_pass(self) -> None:
        """As one does that failed, or whose worker has outlived its broker."""
        for segment in self.chance.sample(self.log.segments[:-1], 2):
            for suffix in SUFFIXES:
                self.disk.open(f"{segment.path(suffix)}.bb{CLEANED}", create=True).close()
        self.disk.sync_directory(DIRECTORY)

    def clean(self) -> None:
        """As a node does it, worker and all."""
        log = self.log
        order = Order(
            directory=DIRECTORY,
            config=CONFIG,
            sources=[SourceSegment(one.base_offset, one.size, one.next_offset) for one in log.segments[:-1]],
            first_dirty=log.start_offset,
            first_uncleanable=log.active.base_offset,
            now_ms=T0,
            last_records={one: LastRecord(*last) for one, last in log.producers.last_records().items()},
            later_aborts=[],
            memory_bytes=24_000,
            load_factor=0.9,
            hash_key=bytes(16),
            ending=ENDING,
        )
        for group in Cleaner(self.disk, order).clean().groups:
            swap = Swap(self.disk, self.files, log, group, ENDING)
            assert swap_in(swap, lambda: self.disk.sync_directory(DIRECTORY))


def records_of(log: Log) -> Found:
    found: Found = {}
    position = log.start_offset
    while position < log.end_offset:
        batches = batches_from(log, position)
        if not batches:
            break
        found.update((one.offset, (one.key, one.value)) for batch in batches for one in batch.records())
        position = batches[-1].next_offset
    return found


def latest(found: Found) -> dict[bytes | None, tuple[int, bytes | None]]:
    return {key: (offset, value) for offset, (key, value) in sorted(found.items())}


def operations_of_a_cleaning(seed: int) -> tuple[int, Found]:
    """How many disk operations there are to die at, and what is in the log when it survives."""
    machine = Machine(seed)
    machine.sim.crash_at(HOST, disk_operations=10**9, power_loss=False)
    faults = machine.sim.machine(HOST).file_system.faults
    machine.clean()
    return 10**9 - faults._operations_left, records_of(machine.log)


def crashes(seed: int, *, power_loss: bool, has_leftovers: bool = False) -> Iterator[tuple[Machine, Found]]:
    """The log as it is opened again after a crash at each operation, and what it should be cleaned to."""
    count, cleaned = operations_of_a_cleaning(seed)
    assert count > 100
    for operation in range(count):
        machine = Machine(seed)
        if has_leftovers:
            machine.leave_files_of_another_pass()
        machine.sim.crash_at(HOST, disk_operations=operation, power_loss=power_loss)
        with pytest.raises(HostDied):
            machine.clean()
        machine.open(replace(machine.state, was_clean=False))
        yield machine, cleaned
        machine.sim.close()


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "without power"])
@pytest.mark.parametrize("seed", range(3))
def test_the_log_is_whole_after_a_crash_at_every_step_of_a_cleaning(seed: int, power_loss: bool) -> None:
    for machine, cleaned in crashes(seed, power_loss=power_loss):
        assert machine.cuts == []
        found = records_of(machine.log)
        # Of each segment there is what was there before, or what a cleaning leaves of it.
        assert cleaned.items() <= found.items() <= machine.before.items()
        assert latest(found) == latest(machine.before)
        names = machine.disk.names(DIRECTORY)
        assert [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))] == []
        assert machine.log.end_offset == max(machine.before) + 1
        machine.clean()
        assert records_of(machine.log) == cleaned
        machine.log.close()
        check_indexes(DIRECTORY, machine.disk)


@pytest.mark.parametrize("power_loss", [False, True], ids=["killed", "without power"])
@pytest.mark.parametrize("seed", range(3))
def test_no_crash_loses_records_where_another_pass_has_left_its_files(seed: int, power_loss: bool) -> None:
    for machine, cleaned in crashes(seed, power_loss=power_loss, has_leftovers=True):
        found = records_of(machine.log)
        assert cleaned.items() <= found.items() <= machine.before.items()
        assert latest(found) == latest(machine.before)
        assert [name for name in machine.disk.names(DIRECTORY) if name.endswith((".cleaned", ".swap"))] == []


def test_cleaning_leaves_less() -> None:
    machine = Machine(0)
    _, cleaned = operations_of_a_cleaning(0)
    assert len(cleaned) < len(machine.before) * 0.7
    assert latest(cleaned) == latest(machine.before)
