"""A compacted log beside its model: cleaned, cut by retention, written by transactions, and crashed at any step."""

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from levada.model.errors import DuplicateSequence, OutOfOrderSequence
from levada.records import BatchView, Codec, build_batch
from levada.records.builder import ControlType, parse_control_record
from levada.records.offset_map import SLOT_BYTES
from levada.sim import Simulation
from levada.sim.world.incarnation import HostDied
from levada.storage.cleaning.cleaner import order_for
from levada.storage.cleaning.dirty import dirty_part
from levada.storage.cleaning.swapping import Swap
from levada.storage.cleaning.task import clean as clean_in_worker
from levada.storage.cleaning.task import decode_cleaned, encode_order
from levada.storage.loading import LogState, open_log
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.outcomes import Appended
from levada.storage.producers import Origin
from levada.storage.retention import expire, retire
from levada.storage.segment import CLEANED, SUFFIXES
from tests.logs import T0, batches_from, check_indexes, clean, killed, marker
from tests.property.compaction_model import Batch, CompactedModel, Outcome, Pass, Row, Transaction
from tests.property.deaths import until_death

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
LIMITS: tuple[dict[str, Any], ...] = ({}, {"retention_ms": 6_000}, {"retention_bytes": 2_000})
LEFTOVERS = (".cleaned", ".swap", ".deleted")

Sending = tuple[list[tuple[bytes, int | None]], int | None, Codec]
"""Keys with the sizes of their values, None for a tombstone; the producer; the compression."""


class KilledCompactedLog:
    """The process is killed at any disk operation: nothing that was acknowledged may be missing."""

    power_loss = False

    def __init__(self, seed: int) -> None:
        self.sim = Simulation(seed)
        self.chance = random.Random(seed)
        self.model = CompactedModel()
        self.now_ms = T0
        self.directory = "/data/t-0"
        """Where the log lies now."""
        self.checkpoint = LogState()
        self.clean_until: int | None = None
        self.cleaning: Iterator[None] | None = None
        self.count = 0
        self.passes = 0
        self.producer_ids: dict[int, int] = {}
        self.cut_producers: set[int] = set()
        """Those whose last batch was lost after a cleaning may have taken the one before it."""
        self.open(self.checkpoint)
        # As a broker does when it creates a topic.
        self.disk.sync_directory("/data")

    def open(self, state: LogState) -> None:
        self.disk = self.sim.world(HOST).disk
        self.find_place()
        self.files = OpenFiles(self.disk)
        self.cleaning, self.is_announced = None, False
        self.log, self.cuts = open_log(
            self.disk, self.directory, CONFIG, now_ms=self.now_ms, state=state, files=self.files
        )
        retired = self.log.take_retired()
        names = [f"{self.directory}/{name}" for name in self.disk.names(self.directory)]
        assert [name for name in names if name.endswith(LEFTOVERS) and name not in retired] == []
        assert self.log.start_offset == max(state.start_offset, self.log.segments[0].base_offset)
        visible = max(state.high_watermark, self.log.start_offset)
        assert self.log.high_watermark == min(visible, self.log.end_offset)

    def find_place(self) -> None:
        """It is where it was."""

    # Writing

    @until_death
    def write(self) -> None:
        later_ms = self.chance.choice((0, 1, 400))
        for _ in range(self.chance.randint(1, 6)):
            rows, producer, codec = self._sending()
            self.now_ms += later_ms
            producer_id = None if producer is None else self._id_of(producer)
            self._append(rows, producer_id, codec, is_transactional=producer in TRANSACTIONAL)

    def _sending(self) -> Sending:
        choose = self.chance.choice
        rows = [(choose(KEYS), choose((None, 0, 20, 120))) for _ in range(self.chance.randint(1, 3))]
        return rows, choose((None, None, *IDEMPOTENT, *TRANSACTIONAL)), choose((Codec.NONE, Codec.NONE, Codec.GZIP))

    def _id_of(self, producer: int) -> int:
        """A producer of whom the log may know no more than a marker gets another id, as clients do then."""
        producer_id = self.producer_ids.setdefault(producer, producer)
        last = self.model.last_batches(producer_id, 1)
        is_forgotten = producer_id in self.cut_producers or (last and last[0].is_given_up)
        if is_forgotten and self.model.open_transaction(producer_id) is None:
            producer_id = self.producer_ids[producer] = producer_id + 10
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
        mine: dict[str, Any] = {}
        if batch.producer_id is not None:
            mine = {"producer_id": batch.producer_id, "producer_epoch": 0, "base_sequence": batch.base_sequence}
        data = build_batch(
            [(batch.timestamp_ms, key, value, ()) for key, value in batch.rows],
            codec=codec,
            is_transactional=batch.transaction is not None,
            **mine,
        )
        return self.log.append(BatchView(data), leader_epoch=0, origin=Origin.CLIENT, now_ms=self.now_ms)

    @until_death
    def end_transaction(self) -> None:
        self._end(self.chance.choice(TRANSACTIONAL))

    def end_all(self) -> None:
        for producer in TRANSACTIONAL:
            self._end(producer)

    def _end(self, producer: int) -> None:
        is_commit = self.chance.random() < 0.5
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

    @until_death
    def repeat(self) -> None:
        """A batch sent again is answered with where it lies, or refused if it is not the last; it is never appended."""
        producer, back = self.chance.choice((*IDEMPOTENT, *TRANSACTIONAL)), self.chance.choice((0, 0, 1, 2, 4))
        last = self.model.last_batches(self.producer_ids.get(producer, producer))
        if (
            back >= len(last)
            or last[0].base_offset < self.log.start_offset
            or last[0].producer_id in self.cut_producers
        ):
            return
        try:
            appended = self._send(last[back])
        except (OutOfOrderSequence, DuplicateSequence):
            assert back > 0
            return
        assert (appended.base_offset, appended.is_duplicate) == (last[back].base_offset, True)

    def replicate(self) -> None:
        """Followers have all but the last few batches."""
        lag = self.chance.choice((0, 0, 0, 1, 3))
        ends = [one.next_offset for one in self.model.batches if one.next_offset >= self.log.high_watermark]
        if len(ends) > lag:
            self.log.set_high_watermark(ends[-1 - lag])

    def wait(self) -> None:
        self.now_ms += self.chance.choice((500, 2_500))

    @until_death
    def upkeep(self) -> None:
        kind = self.chance.choice(("roll", "roll", "flush", "checkpoint", "remove"))
        if kind == "roll":
            self.log.roll(self.log.end_offset, self.now_ms)
        elif kind == "flush":
            self.flush()
        elif kind == "checkpoint":
            self.checkpoint = killed(self.log)
        else:
            # Of two segments of one name that were retired, the second has taken the first one's place.
            for path in dict.fromkeys(self.log.take_retired()):
                self.disk.remove(path)

    def flush(self) -> None:
        self.log.flush()
        self.model.flushed = self.log.end_offset

    # Retention

    @until_death
    def raise_start(self) -> None:
        part = self.chance.choice((0.1, 0.3))
        low = self.log.start_offset
        try:
            self.log.raise_start(low + round(part * (self.log.high_watermark - low)))
        finally:
            self.note_start()

    def note_start(self) -> None:
        """Where retention came to; after a crash only the files know how much of that is left."""
        self.model.start = max(self.model.start, self.log.start_offset)
        self.model.give_up(self.model.start)

    @until_death
    def retain(self) -> None:
        limits = self.chance.choice(LIMITS)
        self.log.reconfigure(replace(CONFIG, **limits))
        start = self.log.start_offset
        try:
            due = expire(self.log, self.now_ms)
            self.checkpoint = replace(self.checkpoint, start_offset=self.log.start_offset)
            count = retire(self.log, due)
        finally:
            self.note_start()
        self.log.reconfigure(CONFIG)
        assert (self.log.start_offset > start) <= (count > 0)
        assert self.log.segments[0].base_offset <= self.log.start_offset <= self.log.high_watermark

    # Cleaning

    @until_death
    def clean(self) -> None:
        self.go_on_cleaning()

    def go_on_cleaning(self) -> None:
        """Go some steps of a cleaning; others may come in between, as they do while a broker waits for its disk."""
        if self.cleaning is None:
            self.cleaning = self.cleaning_of(self.chance.choice((FEW_KEYS, ALL_KEYS, ALL_KEYS)))
        for _ in range(self.chance.choice((1, 2, 1_000, 1_000))):
            if next(self.cleaning, "over") == "over":
                self.cleaning = None
                self.check()
                return

    def cleaning_of(self, keys: int) -> Iterator[None]:
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
        had_end = self._has_end(part.first_uncleanable)
        cleaned = decode_cleaned(clean_in_worker(encode_order(order), self.disk, lambda _: None))
        assert part.first_dirty < cleaned.end_offset <= part.first_uncleanable, (part, cleaned)
        assert keys == FEW_KEYS or cleaned.end_offset == part.first_uncleanable
        self._expect(part.first_dirty, part.first_uncleanable, cleaned.end_offset)
        yield
        is_whole = True
        for group in cleaned.groups:
            swap = Swap(self.disk, self.files, log, group, order.ending)
            for number, step in enumerate(swap.steps()):
                self.is_announced = number == 1
                self.leave_files_of_another_pass()
                if not step():
                    is_whole = False
                    break
                self.disk.sync_directory(self.directory)
                yield
        if is_whole:
            self.clean_until = cleaned.end_offset
            self.passes += 1
            # The last batch stays, if only as a header: it says where the cleaned part ends.
            assert self._has_end(part.first_uncleanable) or not had_end
        self._end_pass(is_whole=is_whole)

    def leave_files_of_another_pass(self) -> None:
        """As a worker does that lives on for a while after its broker has died, at any time and anywhere in the log."""
        if self.chance.random() < 0.8:
            return
        base = self.chance.choice(self.log.segments).base_offset
        for suffix in self.chance.choice((SUFFIXES, SUFFIXES[:1], SUFFIXES[-1:])):
            file = self.disk.open(f"{self.directory}/{base:020d}{suffix}.other{CLEANED}", create=True)
            file.append([bytes(8)])
            file.close()

    def _has_end(self, offset: int) -> bool:
        return offset <= self.log.start_offset or any(one.next_offset == offset for one in self._stored())

    def _secure(self, offset: int) -> None:
        """Holes that a cleaning leaves must not be taken for lost records: it is on record that all is flushed.

        So are the markers behind, by which records in it have taken the place of others.
        """
        if self.log.recovery_point < self.log.high_watermark:
            self.flush()
        if self.checkpoint.recovery_point < offset:
            self.checkpoint = killed(self.log)

    def _expect(self, first_dirty: int, first_uncleanable: int, end: int) -> None:
        bases = [segment.base_offset for segment in self.log.segments]

        def outcome(upper: int) -> Outcome:
            closed_until = next(base for base in bases if base >= min(upper, bases[-1]))
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

    def prepare_to_die(self) -> None:
        operations = self.chance.randrange(200)
        self.sim.crash_at(HOST, disk_operations=operations, power_loss=self.power_loss)

    @until_death
    def stop_and_start(self) -> None:
        self.log.close()
        self.model.flushed = self.log.end_offset
        self.call_off()
        self.sim.crash(HOST, power_loss=self.power_loss)
        self.checkpoint = killed(self.log)
        self.open(clean(self.log))
        assert self.cuts == []
        assert self.log.end_offset == self.model.end
        self._settle()

    def crash_and_start(self) -> None:
        self.call_off()
        self.sim.crash(HOST, power_loss=self.power_loss)
        self.recover()

    def call_off(self) -> None:
        self.sim.machine(HOST).file_system.faults.call_off()

    def recover(self) -> None:
        """Open the log again, where it may die some more times."""
        while True:
            try:
                if self.chance.random() < 0.3:
                    self.prepare_to_die()
                self.open(self.checkpoint)
                self.call_off()
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
        for segment, following in pairwise(self.log.segments):
            assert all(place.header.next_offset <= following.base_offset for place in segment.headers())
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
        """All batches; a reader comes to the end of the log, whatever was cleaned there."""
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
        # Not only below the high watermark, which may have gone back by a crash and lie where much was cleaned since.
        model.check_latest(counted)

    def close(self) -> None:
        self.call_off()
        self.check()
        self.log.close()
        check_indexes(self.directory, self.disk)
        self.sim.close()
