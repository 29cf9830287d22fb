"""A compacted log against its model: cleaned, cut by retention, written by transactions, and crashed at any step."""

import functools
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Concatenate, ParamSpec

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from penstock.model.errors import DuplicateSequenceNumber, OutOfOrderSequenceNumber
from penstock.records import BatchView, Codec, build_batch
from penstock.records.builder import ControlType, parse_control_record
from penstock.records.offset_map import SLOT_BYTES
from penstock.sim import Simulation
from penstock.sim.incarnation import HostDied
from penstock.storage.cleaning.cleaner import CLEANED, order_for
from penstock.storage.cleaning.dirty import dirty_part
from penstock.storage.cleaning.swapping import Swap
from penstock.storage.cleaning.task import clean as clean_in_worker
from penstock.storage.cleaning.task import decode_cleaned, encode_order
from penstock.storage.loading import LogState, open_log
from penstock.storage.log_config import LogConfig
from penstock.storage.open_files import OpenFiles
from penstock.storage.outcomes import Appended
from penstock.storage.producers import Origin
from penstock.storage.retention import apply_retention
from tests.logs import T0, batches_from, check_indexes, clean, killed, marker
from tests.property.compaction_model import Batch, CompactedModel, Pass, Row, Transaction

SOAK = os.environ.get("PENSTOCK_SOAK") == "1"
HOST = "host"
CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=100,
    max_index_bytes=96,
    segment_ms=1_000,
    is_compacted=True,
    retention_ms=-1,
    delete_retention_ms=2_000,
)
KEYS = tuple(b"key-%d" % number for number in range(5))
TRANSACTIONAL = (11, 12)
IDEMPOTENT = (13,)
FEW_KEYS, ALL_KEYS = 3, 100
LEFTOVERS = (".cleaned", ".swap", ".deleted")

SETTINGS = settings(
    max_examples=3_000 if SOAK else 120,
    stateful_step_count=80 if SOAK else 40,
    deadline=None,
    derandomize=not SOAK,
    suppress_health_check=list(HealthCheck),
)

Sending = tuple[list[tuple[bytes, int | None]], int | None, Codec]
"""Keys with the sizes of their values, None for a tombstone; the producer; the compression."""

SENDINGS = st.tuples(
    st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from((None, 0, 20, 120))), min_size=1, max_size=3),
    st.sampled_from((None, None, *IDEMPOTENT, *TRANSACTIONAL)),
    st.sampled_from((Codec.NONE, Codec.NONE, Codec.GZIP)),
)

P = ParamSpec("P")


def until_death(
    step: "Callable[Concatenate[KilledCompactedLog, P], None]",
) -> "Callable[Concatenate[KilledCompactedLog, P], None]":
    """The process may die at any disk operation of a step; then the next one begins with what is left."""

    @functools.wraps(step)
    def wrapped(machine: "KilledCompactedLog", *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            step(machine, *args, **kwargs)
        except HostDied:
            machine.recover()

    return wrapped


class KilledCompactedLog(RuleBasedStateMachine):
    """The process is killed at any disk operation: nothing that was acknowledged may be missing."""

    power_loss = False

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.sim = Simulation(seed)
        self.chance = random.Random(seed)
        self.model = CompactedModel()
        self.now_ms = T0
        self.directory = "/data/t-0"
        """Where the log lies now; the only thing that a move to another directory changes for the model."""
        self.checkpoint = LogState()
        self.clean_until: int | None = None
        self.cleaning: Iterator[None] | None = None
        self.count = 0
        self.producer_ids: dict[int, int] = {}
        self._open(self.checkpoint)
        # As a broker does when it creates a topic.
        self.disk.sync_directory("/data")

    def _open(self, state: LogState) -> None:
        self.disk = self.sim.world(HOST).disk
        self.files = OpenFiles(self.disk)
        self.cleaning = None
        self.log, self.cuts = open_log(
            self.disk, self.directory, CONFIG, now_ms=self.now_ms, state=state, files=self.files
        )
        retired = self.log.take_retired()
        names = [f"{self.directory}/{name}" for name in self.disk.names(self.directory)]
        assert [name for name in names if name.endswith(LEFTOVERS) and name not in retired] == []
        assert self.log.start_offset == max(state.start_offset, self.log.segments[0].base_offset)
        visible = max(state.high_watermark, self.log.start_offset)
        assert self.log.high_watermark == min(visible, self.log.end_offset)

    # Writing

    @rule(batches=st.lists(SENDINGS, min_size=1, max_size=5), later_ms=st.sampled_from((0, 1, 400)))
    @until_death
    def write(self, batches: list[Sending], later_ms: int) -> None:
        for rows, producer, codec in batches:
            self.now_ms += later_ms
            producer_id = None if producer is None else self._id_of(producer)
            self._append(rows, producer_id, codec, is_transactional=producer in TRANSACTIONAL)

    def _id_of(self, producer: int) -> int:
        """A producer of whom the log may know no more than a marker gets another id, as clients do then."""
        producer_id = self.producer_ids.setdefault(producer, producer)
        last = self.model.last_batches(producer_id, 1)
        if last and last[0].is_given_up and self.model.open_transaction(producer_id) is None:
            producer_id = self.producer_ids[producer] = producer_id + len(self.producer_ids) * 10
        return producer_id

    def _append(
        self, rows: list[tuple[bytes, int | None]], producer_id: int | None, codec: Codec, *, is_transactional: bool
    ) -> None:
        self.count += 1
        written: tuple[Row, ...] = tuple(
            (key, None if size is None else b"%d.%d-" % (self.count, number) + bytes(size))
            for number, (key, size) in enumerate(rows)
        )
        base_offset = self.model.end
        batch = Batch(base_offset, written, self.now_ms, producer_id)
        if producer_id is not None:
            batch.base_sequence = self.model.next_sequence(producer_id)
        if producer_id is not None and is_transactional:
            batch.transaction = self.model.open_transaction(producer_id) or Transaction(base_offset)
        self.model.append(batch)
        assert self._send(batch, codec) == Appended(base_offset, batch.next_offset - 1, False, False)
        self.model.answered = self.model.end

    def _send(self, batch: Batch, codec: Codec = Codec.NONE) -> Appended:
        mine = {}
        if batch.producer_id is not None:
            mine = {"producer_id": batch.producer_id, "producer_epoch": 0, "base_sequence": batch.base_sequence}
        data = build_batch(
            [(batch.timestamp_ms, key, value, ()) for key, value in batch.rows],
            codec=codec,
            is_transactional=batch.transaction is not None,
            **mine,
        )
        return self.log.append(BatchView(data), leader_epoch=0, origin=Origin.CLIENT, now_ms=self.now_ms)

    @rule(producer=st.sampled_from(TRANSACTIONAL), is_commit=st.booleans())
    @until_death
    def end_transaction(self, producer: int, is_commit: bool) -> None:
        producer_id = self.producer_ids.get(producer, producer)
        transaction = self.model.open_transaction(producer_id)
        if transaction is None:
            return
        offset = self.model.end
        transaction.is_committed, transaction.marker_offset = is_commit, offset
        # Its one row stands for the record of the marker.
        self.model.append(
            Batch(offset, ((b"", b""),), self.now_ms, producer_id, is_marker=True, transaction=transaction)
        )
        ended = marker(producer_id, commit=is_commit)
        self.log.append(ended, leader_epoch=0, origin=Origin.COORDINATOR, now_ms=self.now_ms)
        self.model.answered = self.model.end

    @rule(producer=st.sampled_from((*IDEMPOTENT, *TRANSACTIONAL)), back=st.integers(0, 4))
    @until_death
    def repeat(self, producer: int, back: int) -> None:
        """A batch sent again is answered with where it lies, or refused if it is not the last; it is never appended."""
        last = self.model.last_batches(self.producer_ids.get(producer, producer))
        if back >= len(last) or last[0].base_offset < self.log.start_offset:
            return
        try:
            appended = self._send(last[back])
        except (OutOfOrderSequenceNumber, DuplicateSequenceNumber):
            assert back > 0
            return
        assert (appended.base_offset, appended.is_duplicate) == (last[back].base_offset, True)

    @rule(lag=st.sampled_from((0, 0, 0, 1, 3)))
    def replicate(self, lag: int) -> None:
        """Followers have all but the last few batches."""
        ends = [one.next_offset for one in self.model.batches if one.next_offset >= self.log.high_watermark]
        if len(ends) > lag:
            self.log.raise_high_watermark(ends[-1 - lag])

    @rule(later_ms=st.sampled_from((500, 2_500)))
    def wait(self, later_ms: int) -> None:
        self.now_ms += later_ms

    @rule(kind=st.sampled_from(("roll", "roll", "flush", "checkpoint", "remove")))
    @until_death
    def upkeep(self, kind: str) -> None:
        if kind == "roll":
            self.log.roll(self.log.end_offset, self.now_ms)
        elif kind == "flush":
            self._flush()
        elif kind == "checkpoint":
            self.checkpoint = killed(self.log)
        else:
            for path in self.log.take_retired():
                self.disk.remove(path)

    def _flush(self) -> None:
        self.log.flush()
        self.model.flushed = self.log.end_offset

    # Retention

    @rule(part=st.sampled_from((0.1, 0.3, 1.0)))
    @until_death
    def raise_start(self, part: float) -> None:
        low = self.log.start_offset
        try:
            self.log.raise_start(low + round(part * (self.log.high_watermark - low)))
        finally:
            self._note_start()

    def _note_start(self) -> None:
        """Where retention came to; after a crash only the files know how much of that is left."""
        self.model.start = max(self.model.start, self.log.start_offset)
        self.model.give_up(self.model.start)

    @rule(limits=st.sampled_from(({}, {"retention_ms": 1_500}, {"retention_bytes": 900}, {"retention_bytes": 2_000})))
    @until_death
    def retain(self, limits: dict[str, int]) -> None:
        self.before_retention()
        self.log.reconfigure(replace(CONFIG, **limits))
        start = self.log.start_offset
        try:
            count = apply_retention(self.log, self.now_ms)
        finally:
            self._note_start()
        self.log.reconfigure(CONFIG)
        assert (self.log.start_offset > start) <= (count > 0)
        assert self.log.segments[0].base_offset <= self.log.start_offset <= self.log.high_watermark
        self.after_retention()

    def before_retention(self) -> None:
        """It may be interrupted anywhere."""

    def after_retention(self) -> None:
        """Its renames stay."""

    # Cleaning

    @rule(steps=st.sampled_from((1, 2, 1_000, 1_000)), keys=st.sampled_from((FEW_KEYS, ALL_KEYS, ALL_KEYS)))
    @until_death
    def clean(self, steps: int, keys: int) -> None:
        """Go some steps of a cleaning; others may come in between, as they do while a broker waits for its disk."""
        if self.cleaning is None:
            self.cleaning = self._clean(keys)
        for _ in range(steps):
            if next(self.cleaning, "over") == "over":
                self.cleaning = None
                self.check()
                return

    def _clean(self, keys: int) -> Iterator[None]:
        log, now_ms = self.log, self.now_ms
        part = dirty_part(log, self.clean_until, now_ms)
        if not part.dirty_bytes or part.first_dirty >= part.first_uncleanable:
            return
        self._secure(part.first_uncleanable)
        order = order_for(
            log,
            part,
            now_ms=now_ms,
            memory_bytes=keys * SLOT_BYTES,
            load_factor=0.9,
            hash_key=bytes(16),
            ending=f".{self.count}{CLEANED}",
        )
        self._expect(part.first_dirty, part.first_uncleanable, part.first_uncleanable)
        cleaned = decode_cleaned(clean_in_worker(encode_order(order), self.disk, lambda _: None))
        assert part.first_dirty < cleaned.end_offset <= part.first_uncleanable, (part, cleaned)
        assert keys == FEW_KEYS or cleaned.end_offset == part.first_uncleanable
        self._expect(part.first_dirty, part.first_uncleanable, cleaned.end_offset)
        yield
        is_whole = True
        for group in cleaned.groups:
            swap = Swap(self.disk, self.files, log, group, order.ending)
            for step in (swap.announce, swap.take_over, swap.settle):
                if step() is False:
                    is_whole = False
                    break
                self.disk.sync_directory(self.directory)
                yield
        if is_whole:
            self.clean_until = cleaned.end_offset
        self._end_pass(is_whole=is_whole)

    def _secure(self, offset: int) -> None:
        """Holes that a cleaning leaves must not be taken for lost records: it is on record that all is flushed."""
        if self.log.recovery_point < offset:
            self._flush()
        if self.checkpoint.recovery_point < offset:
            self.checkpoint = killed(self.log)

    def _expect(self, first_dirty: int, first_uncleanable: int, end: int) -> None:
        bases = [segment.base_offset for segment in self.log.segments]

        def outcome(upper: int) -> dict[Batch, object]:
            closed_until = next(base for base in [*bases[:-1], bases[-1]] if base >= min(upper, bases[-1]))
            return self.model.cleaned(first_dirty, upper, closed_until, self.now_ms, CONFIG.delete_retention_ms)

        self.model.under_way = Pass(asked=outcome(end), most=outcome(first_uncleanable))

    def _end_pass(self, *, is_whole: bool) -> None:
        for batch, (found, horizon_ms) in self._found().items():
            if is_whole:
                assert self.model.ended_as_asked(batch, found, horizon_ms), (batch, found, horizon_ms)
            else:
                assert self.model.may_hold(batch, found, horizon_ms), (batch, found, horizon_ms)
        self._adopt()
        self.model.under_way = None

    # Dying

    @rule(operations=st.integers(0, 150))
    def prepare_to_die(self, operations: int) -> None:
        self.sim.crash_at(HOST, disk_operations=operations, power_loss=self.power_loss)

    @rule()
    @until_death
    def stop_and_start(self) -> None:
        self.log.close()
        self.model.flushed = self.log.end_offset
        self._call_off()
        self.sim.crash(HOST, power_loss=self.power_loss)
        self.checkpoint = killed(self.log)
        self._open(clean(self.log))
        assert self.cuts == []
        assert self.log.end_offset == self.model.end
        self._settle()

    @rule()
    def crash_and_start(self) -> None:
        self._call_off()
        self.sim.crash(HOST, power_loss=self.power_loss)
        self.recover()

    def _call_off(self) -> None:
        self.sim.machine(HOST).file_system.faults.call_off()

    def recover(self) -> None:
        """Open the log again, where it may die some more times."""
        while True:
            try:
                if self.chance.random() < 0.3:
                    self.prepare_to_die(self.chance.randrange(80))
                self._open(self.checkpoint)
                self._call_off()
                break
            except HostDied:
                continue
        self.after_crash()
        self._settle()

    def after_crash(self) -> None:
        assert self.cuts == []
        assert self.model.answered <= self.log.end_offset <= self.model.end
        self.model.cut(self.log.end_offset)

    def _settle(self) -> None:
        """Go on with what was found, which must be what may be found."""
        assert self.log.start_offset <= self.model.start
        for batch, (found, horizon_ms) in self._found().items():
            assert self.model.may_hold(batch, found, horizon_ms), (batch, found, horizon_ms)
        self.model.start = self.log.start_offset
        self._adopt()
        self.model.under_way = None
        if self.clean_until is not None and self.chance.random() < 0.3:
            # Where the last cleaning ended is written without waiting for the device.
            self.clean_until = None
        self.check()

    # Checking

    def _stored(self) -> list[BatchView]:
        """All batches; whoever reads comes to the end of the log, whatever was cleaned there."""
        position, stored = self.log.start_offset, []
        while position < self.log.end_offset:
            batches = batches_from(self.log, position)
            assert batches, f"nothing at {position} though the log ends at {self.log.end_offset}"
            stored += batches
            position = batches[-1].next_offset
        return stored

    def _found(self) -> dict[Batch, tuple[set[int], int | None]]:
        """What the log has of each batch that was sent, and the delete horizon there; each row as it was sent."""
        sent = {batch.base_offset: batch for batch in self.model.batches}
        found: dict[Batch, tuple[set[int], int | None]] = {
            batch: (set(), None) for batch in self.model.batches if batch.next_offset > self.log.start_offset
        }
        for stored in self._stored():
            batch = sent[stored.base_offset]
            assert (stored.next_offset, stored.is_control) == (batch.next_offset, batch.is_marker)
            assert stored.producer_id == (-1 if batch.producer_id is None else batch.producer_id)
            if batch.is_marker:
                continue
            assert stored.base_sequence == batch.base_sequence
            rows = dict(batch.numbered())
            assert all((one.key, one.value) == rows[one.offset] for one in stored.records())
            offsets = {one.offset for one in stored.records() if one.offset >= self.log.start_offset}
            found[batch] = (offsets, stored.delete_horizon_ms)
        return found

    def _adopt(self) -> None:
        start = self.log.start_offset
        for batch, (found, horizon_ms) in self._found().items():
            batch.present = found | {offset for offset in batch.present if offset < start}
            batch.horizon_ms = horizon_ms if found else batch.horizon_ms

    def _visible(self, upper_offset: int) -> dict[int, Row]:
        """What a reader of committed records is handed out below an offset."""
        start = self.log.start_offset
        expected = sorted(self.log.aborted_transactions(start, upper_offset), key=lambda one: one.first_offset)
        aborted: set[int] = set()
        visible: dict[int, Row] = {}
        for batch in self._stored():
            if batch.base_offset >= upper_offset:
                break
            while expected and expected[0].first_offset <= batch.last_offset:
                aborted.add(expected.pop(0).producer_id)
            if batch.is_control:
                if batch.record_count and parse_control_record(batch.records()[0]).type == ControlType.ABORT:
                    aborted.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in aborted):
                rows = {one.offset: (one.key or b"", one.value) for one in batch.records()}
                visible |= {offset: row for offset, row in rows.items() if start <= offset < upper_offset}
        return visible

    @rule()
    @until_death
    def check(self) -> None:
        log, model = self.log, self.model
        model.high_watermark = log.high_watermark
        assert (log.start_offset, log.end_offset) == (model.start, model.end)
        assert log.start_offset <= log.last_stable_offset <= log.high_watermark <= log.end_offset
        low, high = model.stable_bounds()
        assert low <= log.last_stable_offset <= high
        found = self._found()
        for batch, (offsets, horizon_ms) in found.items():
            assert model.may_hold(batch, offsets, horizon_ms), (batch, offsets, horizon_ms)
        visible = self._visible(log.last_stable_offset)
        counted = {offset for batch, (offsets, _) in found.items() if batch.counts for offset in offsets}
        stable = {offset for offset in counted if offset < log.last_stable_offset}
        assert visible.keys() == stable, (sorted(visible), sorted(stable))
        model.check_latest(visible, log.last_stable_offset)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self._call_off()
            self.check()
            self.log.close()
            check_indexes(self.directory, self.disk)
            self.sim.close()


class PowerlessCompactedLog(KilledCompactedLog):
    """The machine loses its power at any disk operation: a beginning with everything that was flushed remains."""

    power_loss = True

    def after_crash(self) -> None:
        assert self.model.flushed <= self.log.end_offset <= self.model.end
        self._cut_at_hole()
        self.model.cut(self.log.end_offset)
        # Else what was cut off here could come back by the next power cut, behind other records.
        self._flush()
        self.checkpoint = killed(self.log)

    def before_retention(self) -> None:
        # A power cut among its renames could keep an older segment and not a younger one, with the end of a
        # transaction that began in the older.
        self._call_off()

    def after_retention(self) -> None:
        self.disk.sync_directory(self.directory)

    def _cut_at_hole(self) -> None:
        """A compacted log may have gaps, so that none is taken for the trace of a power cut; here it is known."""
        position, stored = self.log.start_offset, set()
        while batches := batches_from(self.log, position) if position < self.log.end_offset else []:
            stored |= {one.base_offset for one in batches}
            position = batches[-1].next_offset
        certain = max(self.model.flushed, min(self.model.start, self.log.start_offset))
        for batch in self.model.batches:
            if certain <= batch.base_offset < self.log.end_offset and batch.base_offset not in stored:
                self.log.truncate(batch.base_offset, self.now_ms)
                return


def test_a_compacted_log_equals_its_model_wherever_its_process_is_killed() -> None:
    run_state_machine_as_test(KilledCompactedLog, settings=SETTINGS)


def test_a_compacted_log_equals_its_model_wherever_the_power_is_cut() -> None:
    run_state_machine_as_test(PowerlessCompactedLog, settings=SETTINGS)
