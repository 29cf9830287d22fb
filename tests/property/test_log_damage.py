"""One flipped bit anywhere in a data directory: right data or a report, never wrong data, another error or a hang."""

import logging
import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from levada.broker.replicas import report_cuts
from levada.model.errors import KafkaStorageError
from levada.records import RecordsError, iter_batches
from levada.storage.formats import AbortedTransaction
from levada.storage.loading import LogState
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.log_directory import START_OFFSETS, LogDirectory
from levada.world.real_disk import RealDisk, RealFile
from tests.logs import T0, append, batches_from, delete_old_segments, end_transaction, read_all, run_search

FLIPS = 10_000 if os.environ.get("LEVADA_SOAK") == "1" else 500
"""Of a closed directory, and as many of a killed one."""

BLOCK = 100
HANG_SECONDS = 20
CONFIG = LogConfig(segment_bytes=3_000, index_interval_bytes=200, max_index_bytes=1_200)
TOPIC = "damaged"
OFFSET_BYTES = 8
LAST_OFFSET_DELTA = range(23, 27)
"""The offset at the head of a batch lies outside its checksum: a leader fills it in without reading the records."""


class QuickFile(RealFile):
    __slots__ = ()

    def sync(self) -> None:
        """No power is lost here."""


class QuickDisk(RealDisk):
    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> QuickFile:
        file = super().open(path, create=create, exclusive=exclusive)
        quick = QuickFile(path, file.duplicate())
        file.close()
        return quick

    def sync_directory(self, path: str) -> None:
        """Nor here."""


@dataclass
class Expected:
    """What a sound log answers, and what else lies below its start."""

    written: dict[int, bytes | None]
    aborted: list[AbortedTransaction]
    start_offset: int
    end_offset: int


@dataclass
class Template:
    directory: Path
    logs: list[Expected] = field(default_factory=list)


@dataclass
class Flip:
    """Where the bit was, and what the format cannot protect there."""

    path: Path
    position: int
    moves_offsets: bool = False
    ends_elsewhere: bool = False
    """A batch seems to end at another offset: a lookup goes by headers, and only a reader checks the checksum."""

    @property
    def moves_start(self) -> bool:
        return self.path.name == START_OFFSETS

    @property
    def is_transaction_index(self) -> bool:
        return self.path.suffix == ".txnindex"


class Hang(BaseException):
    """Nothing catches this but the test."""


def fill(log: Log, chance: random.Random) -> None:
    """Plain and transactional records in several segments, epochs, aborts, and an open transaction at the end."""
    sequences = {1: 0, 2: 0}
    for number in range(120):
        values = [b"%d-%d-" % (number, part) + chance.randbytes(chance.randrange(60)) for part in range(2)]
        producer_id = chance.choice((None, 1, 2))
        settings: dict[str, int] = {}
        if producer_id is not None:
            settings = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": sequences[producer_id]}
            sequences[producer_id] += len(values)
        at_ms = T0 + number * 10 - chance.randrange(30)
        is_transactional = producer_id is not None
        append(log, *values, at_ms=at_ms, leader_epoch=number // 50, is_transactional=is_transactional, **settings)
        if number % 12 == 11:
            end_transaction(log, chance.choice((1, 2)), commit=chance.random() < 0.3)


def made(directory: Path, *, is_closed: bool) -> Template:
    chance = random.Random(7)
    logs = LogDirectory(QuickDisk(), str(directory), CONFIG, lambda _: 0)
    logs.begin()
    opened = [logs.open(TOPIC, index, T0, LogState())[0] for index in range(2)]
    template = Template(directory)
    for log in opened:
        fill(log, chance)
    opened[0].flush()
    for log in opened:
        fill_more(log)
    written = [dict(read_all(log)) for log in opened]
    first = opened[0]
    first.raise_start(first.segments[2].base_offset + 5)
    delete_old_segments(first)
    logs.write_checkpoints()
    for log, records in zip(opened, written):
        assert len(log.segments) > 4
        aborted = log.aborted_transactions(log.start_offset, log.end_offset)
        assert len(aborted) > 3
        template.logs.append(Expected(records, aborted, log.start_offset, log.end_offset))
    if is_closed:
        logs.close(broker_epoch=0)
    return template


def fill_more(log: Log) -> None:
    """After the flush, so that a part of the log needs no recovery."""
    for number in range(60):
        append(log, b"more %d" % number, at_ms=T0 + 5_000 + number, leader_epoch=3)


@pytest.fixture(scope="module", params=["closed", "killed"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    return made(tmp_path_factory.mktemp(request.param) / "data", is_closed=request.param == "closed")


def flip(directory: Path, chance: random.Random) -> Flip:
    """Turn one bit of one file; each file is as likely as the others, so that small ones get their share."""
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    path = chance.choice(files)
    data = bytearray(path.read_bytes())
    position = chance.randrange(len(data))
    done = Flip(path, position)
    if path.suffix == ".log":
        starts = [batch.start for batch in iter_batches(bytes(data))]
        done.moves_offsets = any(start <= position < start + OFFSET_BYTES for start in starts)
        done.ends_elsewhere = any(position - start in LAST_OFFSET_DELTA for start in starts)
    data[position] ^= 1 << chance.randrange(8)
    path.write_bytes(data)
    return done


class Reports(logging.Handler):
    """What was said, in warnings or errors of any kind."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def listening() -> Iterator[Reports]:
    reports = Reports()
    logger = logging.getLogger("levada")
    logger.addHandler(reports)

    def hang(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(HANG_SECONDS)
    try:
        yield reports
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        logger.removeHandler(reports)


def open_logs(directory: Path, reports: Reports) -> list[Log]:
    """The logs that can be served; what cannot has been reported."""
    logs = LogDirectory(QuickDisk(), str(directory), CONFIG, lambda _: 0)
    logs.begin()
    opened: list[Log] = []
    for index in range(2):
        try:
            log, cuts = logs.open(TOPIC, index, T0)
        except KafkaStorageError as error:
            reports.said.append(str(error))
            return []
        report_cuts(cuts)
        log.set_high_watermark(log.end_offset)
        opened.append(log)
    return opened


def check_log(log: Log, expected: Expected, done: Flip, reports: Reports) -> None:
    found: dict[int, bytes | None] = {}
    try:
        found.update(read_all(log, max_bytes=2_000))
    except (KafkaStorageError, RecordsError) as error:
        reports.said.append(str(error))
    for offset in range(log.start_offset, min(log.end_offset, expected.end_offset), 13):
        try:
            batch = batches_from(log, offset, max_bytes=1)[0]
            may_be_another = done.moves_offsets or done.ends_elsewhere
            assert may_be_another or batch.base_offset <= offset <= batch.last_offset
            found.update((one.offset, one.value) for one in batch.records() if not batch.is_control)
        except (KafkaStorageError, RecordsError) as error:
            reports.said.append(str(error))
    known = set(expected.written.values())
    for at, value in found.items():
        assert value in known, (at, value)
        assert done.moves_offsets or expected.written.get(at) == value, (at, value)
    ask_more(log, reports)
    if reports.said or done.moves_offsets:
        return
    start = log.start_offset if done.moves_start else expected.start_offset
    assert (log.start_offset, log.end_offset) == (start, expected.end_offset)
    visible = {at: value for at, value in found.items() if at >= start}
    assert visible == {at: value for at, value in expected.written.items() if at >= start}
    if not done.is_transaction_index and not done.moves_start:
        assert ends_of(log.aborted_transactions(start, log.end_offset)) == ends_of(expected.aborted)


def ends_of(aborted: list[AbortedTransaction]) -> list[tuple[int, int]]:
    """Not where they began: a rebuilt index does not know what began in segments that are gone."""
    return [(one.producer_id, one.last_offset) for one in aborted]


def ask_more(log: Log, reports: Reports) -> None:
    """Every other question is answered, or refused as a storage error."""
    offsets = (log.start_offset, (log.start_offset + log.end_offset) // 2, log.end_offset)
    for offset in offsets:
        for ask in (
            lambda offset=offset: log.aborted_in_read(offset, 500),
            lambda offset=offset: run_search(log.search_since(T0 + offset * 5)),
            lambda: run_search(log.search_newest()),
            lambda offset=offset: log.epochs.end_offset_of(log.epochs.epoch_at(offset), log.end_offset),
        ):
            try:
                ask()
            except KafkaStorageError as error:
                reports.said.append(str(error))


def check_goes_on(log: Log, reports: Reports) -> None:
    """What is appended now is there, also after another crash."""
    try:
        base_offset = append(log, b"afterwards", leader_epoch=max(log.epochs.latest, 0)).base_offset
        assert list(read_all(log, base_offset)) == [(base_offset, b"afterwards")]
        log.close()
    except KafkaStorageError as error:
        reports.said.append(str(error))


@pytest.mark.parametrize("first", range(0, FLIPS, BLOCK))
def test_a_flipped_bit_gives_right_data_or_a_report(template: Template, tmp_path: Path, first: int) -> None:
    for seed in range(first, first + BLOCK):
        directory = tmp_path / str(seed)
        shutil.copytree(template.directory, directory, copy_function=shutil.copyfile)
        done = flip(directory, random.Random(f"{template.directory.parent.name} {seed}"))
        with listening() as reports:
            try:
                for log, expected in zip(open_logs(directory, reports), template.logs):
                    check_log(log, expected, done, reports)
                    check_goes_on(log, reports)
            except BaseException as error:
                error.add_note(f"seed {seed}: byte {done.position} of {done.path}, {reports.said}")
                raise
        shutil.rmtree(directory)


def test_an_undamaged_directory_is_read_without_a_report(template: Template, tmp_path: Path) -> None:
    shutil.copytree(template.directory, tmp_path / "data", copy_function=shutil.copyfile)
    done = Flip(tmp_path / "none", 0)
    with listening() as reports:
        logs = open_logs(tmp_path / "data", reports)
        assert len(logs) == 2
        for log, expected in zip(logs, template.logs):
            check_log(log, expected, done, reports)
        assert reports.said == []
