"""The log against a list: whatever is done to it, and however its process or its machine ends."""

import os
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from levada.model.errors import OffsetOutOfRange
from levada.records import BatchView
from levada.sim import Simulation
from levada.storage.loading import LogState, open_log
from levada.storage.log_config import LogConfig
from levada.world.disk import Disk
from tests.logs import (
    T0,
    append,
    apply_retention,
    batches_from,
    check_indexes,
    clean,
    delete_old_segments,
    read_all,
    run_search,
)

SOAK = os.environ.get("LEVADA_SOAK") == "1"
HOST = "host"
CONFIG = LogConfig(segment_bytes=900, index_interval_bytes=150, max_index_bytes=96, segment_ms=1_000)
PRODUCERS = (None, 1, 2, 3)

SETTINGS = settings(
    max_examples=2_000 if SOAK else 100,
    stateful_step_count=60 if SOAK else 30,
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Batch:
    base_offset: int
    values: tuple[bytes, ...]
    timestamp_ms: int
    producer_id: int | None
    base_sequence: int

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.values)

    def records(self) -> list[tuple[int, bytes]]:
        return [(self.base_offset + number, value) for number, value in enumerate(self.values)]


@dataclass
class Model:
    """All batches that were appended and not cut off again; readers see those from `start` on."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    flushed: int = 0
    written: dict[int, set[bytes]] = field(default_factory=dict)
    """Every value that ever stood at an offset: an old one may come back when a truncation was not flushed."""

    @property
    def end(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start

    def records(self, offset: int = 0) -> list[tuple[int, bytes]]:
        first = max(offset, self.start)
        return [record for batch in self.batches for record in batch.records() if record[0] >= first]

    def append(self, batch: Batch) -> None:
        self.batches.append(batch)
        for offset, value in batch.records():
            self.written.setdefault(offset, set()).add(value)

    def next_sequence(self, producer_id: int) -> int:
        last = self.last_of(producer_id)
        return 0 if last is None else last.base_sequence + len(last.values)

    def last_of(self, producer_id: int) -> Batch | None:
        return next((batch for batch in reversed(self.batches) if batch.producer_id == producer_id), None)

    def truncate(self, offset: int) -> None:
        self.batches = [batch for batch in self.batches if batch.next_offset <= offset]
        self.start = min(self.start, offset)
        self.flushed = min(self.flushed, offset)


class KilledLog(RuleBasedStateMachine):
    """The process is killed at any time: nothing that was written may be missing."""

    power_loss = False

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.sim = Simulation(seed)
        self.model = Model()
        self.now_ms = T0
        self.checkpoint = LogState()
        self.count = 0
        self.directory = "/data/t-0"
        """Where the log lies now; the only thing that a move to another directory changes for the model."""
        self._open(self.checkpoint)
        # As a broker does when it creates a topic.
        self.disk.sync_directory("/data")

    @property
    def disk(self) -> Disk:
        return self._disk

    def _open(self, state: LogState) -> None:
        self._disk = self.sim.world(HOST).disk
        self.log, self.cuts = open_log(self._disk, self.directory, CONFIG, now_ms=self.now_ms, state=state)
        self.log.set_high_watermark(self.log.end_offset)

    @rule(
        sizes=st.lists(st.sampled_from((0, 5, 60, 200)), min_size=1, max_size=3),
        later_ms=st.sampled_from((0, 1, 400, 1_500, -300)),
        producer_id=st.sampled_from(PRODUCERS),
        leader_epoch_step=st.sampled_from((0, 0, 0, 1)),
    )
    def append(self, sizes: list[int], later_ms: int, producer_id: int | None, leader_epoch_step: int) -> None:
        self.now_ms += max(later_ms, 0)
        self.count += 1
        values = tuple(b"%d.%d-" % (self.count, number) + bytes(size) for number, size in enumerate(sizes))
        sequence = -1 if producer_id is None else self.model.next_sequence(producer_id)
        batch = Batch(self.log.end_offset, values, self.now_ms + min(later_ms, 0), producer_id, sequence)
        epoch = max(self.log.epochs.latest, 0) + leader_epoch_step
        assert self._send(batch, epoch) == (batch.base_offset, False)
        self.model.append(batch)

    def _send(self, batch: Batch, leader_epoch: int) -> tuple[int, bool]:
        mine = {}
        if batch.producer_id is not None:
            mine = {"producer_id": batch.producer_id, "producer_epoch": 0, "base_sequence": batch.base_sequence}
        appended = append(
            self.log, *batch.values, at_ms=batch.timestamp_ms, now_ms=self.now_ms, leader_epoch=leader_epoch, **mine
        )
        return appended.base_offset, appended.is_duplicate

    @rule(producer_id=st.sampled_from(PRODUCERS[1:]))
    def repeat(self, producer_id: int) -> None:
        """A producer's last batch sent again is answered with where it lies."""
        last = self.model.last_of(producer_id)
        if last is not None and last.base_offset >= self.log.start_offset:
            assert self._send(last, max(self.log.epochs.latest, 0)) == (last.base_offset, True)

    @rule(part=st.floats(0, 1), max_bytes=st.sampled_from((1, 100, 1_000, 1 << 20)))
    def read(self, part: float, max_bytes: int) -> None:
        offset = self.model.start + round(part * (self.model.end - self.model.start))
        batches = batches_from(self.log, offset, max_bytes)
        if offset < self.model.end:
            assert batches[0].base_offset <= offset <= batches[0].last_offset
        assert list(read_all(self.log, offset, max_bytes)) == self.model.records(offset)

    @rule(distance=st.integers(1, 10))
    def read_outside(self, distance: int) -> None:
        for offset in (self.model.start - distance, self.model.end + distance):
            with pytest.raises(OffsetOutOfRange):
                batches_from(self.log, offset)

    @rule(back_ms=st.integers(-10, 3_000))
    def find_by_time(self, back_ms: int) -> None:
        target = self.now_ms - back_ms
        found = run_search(self.log.search_since(target))
        candidates = [
            (max(batch.base_offset, self.model.start), batch.timestamp_ms)
            for batch in self.model.batches
            if batch.timestamp_ms >= target and batch.next_offset > self.model.start
        ]
        assert (None if found is None else (found.offset, found.timestamp_ms)) == next(iter(candidates), None)

    @rule()
    def roll(self) -> None:
        self.log.roll(self.log.end_offset, self.now_ms)

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        places = [batch.base_offset for batch in self.model.batches]
        places = [offset for offset in places if offset >= self.log.segments[0].base_offset]
        if not places:
            return
        offset = places[round(part * (len(places) - 1))]
        self.log.truncate(offset, self.now_ms)
        self.model.truncate(offset)
        # A replica writes its checkpoints before it goes on from a truncation.
        self._write_checkpoint()

    @rule(part=st.floats(0, 1))
    def raise_start(self, part: float) -> None:
        offset = self.model.start + round(part * (self.model.end - self.model.start))
        self.log.raise_start(offset)
        self.model.start = offset

    @rule()
    def delete_old_segments(self) -> None:
        delete_old_segments(self.log)
        assert self.log.segments[0].base_offset <= self.model.start
        # A power cut among the renames could keep an older segment and not a younger one.
        self.disk.sync_directory(self.directory)

    @rule(limit=st.sampled_from((("retention_ms", 500), ("retention_ms", 2_000), ("retention_bytes", 1_000))))
    def retain(self, limit: tuple[str, int]) -> None:
        """By time and by size: the oldest segments go that may go, and no other."""
        expected = self._start_after_retention(*limit)
        self.log.reconfigure(replace(CONFIG, **{"retention_ms": -1, limit[0]: limit[1]}))  # type: ignore[arg-type]
        apply_retention(self.log, self.now_ms)
        self.log.reconfigure(CONFIG)
        self.model.start = max(expected, self.model.start)
        assert self.log.start_offset == self.model.start
        assert self.log.segments[0].base_offset >= expected
        self.disk.sync_directory(self.directory)

    def _start_after_retention(self, kind: str, limit: int) -> int:
        """Where the log begins then, by the batches in its segments and their sizes."""
        segments = [one for one in self.log.segments if one.next_offset > self.model.start or one.is_active]
        excess = sum(one.size for one in segments) - limit
        for segment in segments:
            excess -= segment.size
            times = [
                batch.timestamp_ms
                for batch in self.model.batches
                if segment.base_offset <= batch.base_offset < segment.next_offset
            ]
            is_old = bool(times) and max(times) < self.now_ms - limit
            if not times or not (is_old if kind == "retention_ms" else excess >= 0):
                return segment.base_offset
        return self.log.end_offset

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.model.flushed = self.log.end_offset

    @rule()
    def write_checkpoint(self) -> None:
        self._write_checkpoint()

    def _write_checkpoint(self) -> None:
        self.checkpoint = replace(clean(self.log), was_clean=False)

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self._write_checkpoint()
        self.model.flushed = self.log.end_offset
        self.sim.crash(HOST, power_loss=self.power_loss)
        self._open(clean(self.log))
        assert self.cuts == []
        self.check()

    @rule()
    def crash_and_start(self) -> None:
        self.sim.crash(HOST, power_loss=self.power_loss)
        self._open(self.checkpoint)
        self.after_crash()
        self.check()

    def after_crash(self) -> None:
        assert self.cuts == []
        self.model.start = self.log.start_offset
        assert self.log.start_offset == max(self.checkpoint.start_offset, self.log.segments[0].base_offset)

    @rule()
    def check(self) -> None:
        assert (self.log.start_offset, self.log.end_offset) == (self.model.start, self.model.end)
        assert list(read_all(self.log)) == self.model.records()
        offsets = [segment.base_offset for segment in self.log.segments]
        assert offsets == sorted(set(offsets))
        assert all(entry.start_offset <= self.model.end for entry in self.log.epochs.entries)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.check()
            self.log.close()
            check_indexes(self.directory, self.disk)
            self.sim.close()


class PowerlessLog(KilledLog):
    """The machine loses its power at any time: what remains is a beginning, with everything that was flushed."""

    power_loss = True

    def after_crash(self) -> None:
        survived = list(read_all(self.log))
        assert [offset for offset, _ in survived] == list(range(self.log.start_offset, self.log.end_offset))
        assert self.log.end_offset >= self.model.flushed
        certain = [record for record in self.model.records() if record[0] < self.model.flushed]
        assert [record for record in survived if self.model.start <= record[0] < self.model.flushed] == certain
        for offset, value in survived:
            assert value in self.model.written[offset]
        self._adopt(survived)

    def _adopt(self, survived: list[tuple[int, bytes | None]]) -> None:
        """Go on with what there is; batches keep their producers, as the log has them."""
        self.model.start = self.log.start_offset
        batches = []
        for one in self._stored_batches():
            values = tuple(record.value or b"" for record in one.records())
            producer_id = None if one.producer_id < 0 else one.producer_id
            batches.append(Batch(one.base_offset, values, one.max_timestamp, producer_id, one.base_sequence))
        below = [batch for batch in self.model.batches if not batches or batch.base_offset < batches[0].base_offset]
        kept = [batch for batch in below if batch.next_offset <= self.log.end_offset]
        if not batches and kept and kept[-1].next_offset < self.log.end_offset:
            # The log lost more than its start was raised by, and begins anew there.
            kept = []
        self.model.batches = [*kept, *batches]
        assert [record for record in self.model.records() if record[0] >= self.log.start_offset] == survived

    def _stored_batches(self) -> list[BatchView]:
        position = self.log.start_offset
        found: list[BatchView] = []
        while position < self.log.end_offset:
            batches = batches_from(self.log, position)
            found += batches
            position = batches[-1].next_offset
        return found


def test_a_log_equals_its_model_however_its_process_ends() -> None:
    run_state_machine_as_test(KilledLog, settings=SETTINGS)


def test_after_a_power_cut_a_beginning_with_all_that_was_flushed_remains() -> None:
    run_state_machine_as_test(PowerlessLog, settings=SETTINGS)


@pytest.mark.parametrize("first", range(0, 100, 50))
def test_a_log_that_was_not_changed_is_whole_after_a_power_cut_behind_its_stop(first: int) -> None:
    for seed in range(first, first + 50):
        state = PowerlessLog()
        state.begin(seed=seed)
        state.append(later_ms=0, leader_epoch_step=0, producer_id=None, sizes=[0])
        state.stop_and_start()
        state.stop_and_start()
        state.teardown()


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_no_hole_is_left_where_a_power_cut_took_the_end_of_a_closed_segment(first: int) -> None:
    for seed in range(first, first + 100):
        machine = PowerlessLog()
        machine.begin(seed)
        machine.disk.sync_directory(machine.directory)
        for _ in range(3):
            for _ in range(2):
                machine.append([60], 1, None, 0)
            machine.roll()
        machine.append([60], 1, None, 0)
        machine.crash_and_start()
        machine.teardown()
