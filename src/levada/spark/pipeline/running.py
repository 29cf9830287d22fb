"""A pipeline while it runs: its queries, what they are doing, and how they end."""

import json
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery

from levada.spark.pipeline.failure import cause_of, failure_of
from levada.spark.pipeline.meter import ProgressWatch
from levada.spark.pipeline.problems import QueryFailed
from levada.spark.pipeline.progress import Display, QueryProgress, progress_of
from levada.spark.pipeline.sinks import Control

LOOK_S: Final = 0.1
TELL_S: Final = 1.0
"""How often others are told how far the queries are: groups of brokers and the file of `status`."""
START_S: Final = 30.0
INITIALIZING: Final = "Initializing sources"
NOT_IN_TIME: Final = "waiting for the Python worker to connect back"
MOST_RESTARTS: Final = 5
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StoppedAtOnce(Exception):
    """The second signal: the batch is not waited for."""


@dataclass(slots=True)
class Running:
    """Queries by name, and what their sinks wait for."""

    queries: dict[str, StreamingQuery] = field(default_factory=dict)
    starts: dict[str, Callable[[], StreamingQuery]] = field(default_factory=dict)
    restarts: dict[str, int] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    batches: dict[str, int] = field(default_factory=dict)
    last_seen: dict[str, int] = field(default_factory=dict)
    watch: ProgressWatch | None = None

    def start(self, name: str, start: Callable[[], StreamingQuery]) -> StreamingQuery:
        self.starts[name] = start
        try:
            self.queries[name] = start()
        except Exception as error:  # Of Java's side, such as that the checkpoint cannot be written.
            raise QueryFailed(name, cause_of(error)) from error
        return self.queries[name]

    def restart(self, name: str) -> bool:
        """Go on from the checkpoint, if it was not tried too often."""
        self.restarts[name] = self.restarts.get(name, 0) + 1
        if name not in self.starts or self.restarts[name] > MOST_RESTARTS:
            return False
        self.queries[name] = self.starts[name]()
        return True

    def note(self, name: str, text: str) -> None:
        """What a sink waits for; nothing when it goes on."""
        self.notes[name] = text

    def look(self) -> list[QueryProgress]:
        """How far each is; what was done since the last look is counted."""
        found = [self._look(name, query) for name, query in self.queries.items()]
        return found if self.watch is None else self.watch.measured(found)

    def look_now(self) -> None:
        if self.watch is not None:
            self.look()
            self.watch.look()

    def show(self, display: Display) -> None:
        """How far each is, and what comes in."""
        progress = self.look()
        display.show(progress, 0.0 if self.watch is None else self.watch.events_per_second())

    def _look(self, name: str, query: Any) -> QueryProgress:
        last = query._jsq.lastProgress()
        if last is None:
            return progress_of(name, {}, self.notes.get(name, ""))
        if last.batchId() > self.last_seen.get(name, -1):
            for report in query._jsq.recentProgress():
                self._count(name, report.batchId(), report.numInputRows())
        return progress_of(name, json.loads(last.json()), self.notes.get(name, ""), self.rows.get(name, 0))

    def _count(self, name: str, batch: int, rows: int) -> None:
        # Reports of one batch may come twice: an idle query repeats its last number.
        if batch > self.last_seen.get(name, -1) and rows:
            self.last_seen[name] = batch
            self.rows[name] = self.rows.get(name, 0) + rows
            self.batches[name] = self.batches.get(name, 0) + 1

    def summary(self) -> str:
        """Such as `levada: stopped; totals 1200 rows in 3 batches, users 10 rows in 1 batches`."""
        return ", ".join(
            f"{name} {self.rows.get(name, 0)} rows in {self.batches.get(name, 0)} batches" for name in self.queries
        )


class StopSignals:
    """SIGTERM and Ctrl-C: the first asks to stop after the current batch, the second to stop at once."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self.count = 0

    @contextmanager
    def heard(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in SIGNALS}
        for number in SIGNALS:
            signal.signal(number, self._note)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self._control.stopping.set()


def wait_for_start(query: StreamingQuery, control: Control) -> None:
    """Until its sources are there: each is a process that Spark gives ten seconds, too little for many at a time."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and query.isActive and query.status["message"] == INITIALIZING:
        if control.stopping.wait(LOOK_S):
            return


def supervise(
    running: Running,
    control: Control,
    signals: StopSignals,
    display: Display,
    interval_s: float,
    tell: Callable[[Sequence[QueryProgress]], None],
) -> None:
    """Until all queries are done or a signal says stop; QueryFailed if one fails."""
    next_shown = time.monotonic() + interval_s
    next_told = time.monotonic()
    while not control.stopping.wait(LOOK_S):
        # Asked before: one that fails in between must not pass for one that is done.
        is_over = not any(query.isActive for query in running.queries.values())
        has_restarted = _refuse_failed(running)
        if is_over and not has_restarted:
            break
        if time.monotonic() >= next_told:
            tell(running.look())
            next_told = time.monotonic() + TELL_S
        if time.monotonic() >= next_shown:
            running.show(display)
            next_shown = time.monotonic() + interval_s
    if control.stopping.is_set():
        stop_after_batch(running, signals)
    running.look_now()
    tell(running.look())
    running.show(display)


def stop_after_batch(running: Running, signals: StopSignals) -> None:
    """Each query when its current batch has ended."""
    begun = {name: _last_batch(query) for name, query in running.queries.items()}
    waiting = dict(running.queries)
    while waiting:
        if signals.count > 1:
            raise StoppedAtOnce
        for name, query in list(waiting.items()):
            if not query.isActive or not _is_in_a_batch(query) or _last_batch(query) > begun[name]:
                query.stop()
                if query.exception() is not None:
                    raise QueryFailed(name, failure_of(query))
                del waiting[name]
        time.sleep(LOOK_S / 2)


def stop_at_once(running: Running) -> None:
    for query in running.queries.values():
        query.stop()


def _refuse_failed(running: Running) -> bool:
    """QueryFailed if one has; whether one was started again instead."""
    has_restarted = False
    for name, query in list(running.queries.items()):
        if query.isActive or query.exception() is None:
            continue
        failure = failure_of(query)
        # Spark gives a Python process ten seconds to start, which a busy machine may not keep.
        if NOT_IN_TIME in failure and running.restart(name):
            has_restarted = True
            continue
        raise QueryFailed(name, failure)
    return has_restarted


def _is_in_a_batch(query: StreamingQuery) -> bool:
    """Not while it looks for new rows: that is what an idle query does all the time."""
    status: Mapping[str, Any] = query.status
    return bool(status["isTriggerActive"] and status["isDataAvailable"])


def _last_batch(query: Any) -> int:
    report = query._jsq.lastProgress()
    return int(report.batchId()) if report is not None else -1
