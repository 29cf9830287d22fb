"""How a pipeline is doing: a file beside its checkpoints, written while it runs, and what `status` says of it."""

import fcntl
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from levada.spark.pipeline.problems import PipelineError, QueryFailed, one_line, say
from levada.spark.pipeline.progress import QueryProgress, short

RUNNING: Final = "running"
STOPPED: Final = "stopped"
DONE: Final = "done"
FAILED: Final = "failed"
KILLED: Final = "killed"
"""What is said of a pipeline that could not say how it ended."""

LOCK_SECONDS: Final = 0.5
COLUMNS: Final = ("QUERY", "STATE", "BATCH", "EVENTS/S", "LAG", "LAST BATCH", "TOOK", "NOTE")


@dataclass(frozen=True, slots=True)
class QueryStatus:
    name: str
    state: str = RUNNING
    batch: int = -1
    events_per_second: float = 0.0
    lag: int | None = None
    lag_s: float | None = None
    last_batch: str = ""
    batch_ms: int = 0
    note: str = ""
    """What its sink waits for, or why it failed."""


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    name: str
    state: str
    process: int
    since: str
    until: str = ""
    error: str = ""
    queries: Sequence[QueryStatus] = field(default_factory=list)


class StatusFile:
    """One process runs a pipeline on a checkpoint, and each query there, whatever pipeline has it. It holds locks
    while it does, which its death releases."""

    def __init__(self, directory: str, name: str, queries: Sequence[str] = ()) -> None:
        self._path = Path(directory, f"{name}.status.json")
        self._locks = _locks(directory, name, queries)
        self._held = ExitStack()
        self._status = PipelineStatus(name, RUNNING, os.getpid(), _now())
        self._has_warned = False

    def __enter__(self) -> Self:
        for lock, what in self._locks.items():
            file = self._held.enter_context(lock.open("a"))
            if not _is_locked_by_us(file.fileno()):
                self._held.close()
                raise _runs_already(what, lock)
        self._write(self._status)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._status.state == RUNNING:
            self.end(FAILED, one_line(str(error) or type(error).__name__))
        self._held.close()

    def note(self, progress: Sequence[QueryProgress]) -> None:
        """How far the queries are; nothing is written where that is known."""
        queries = [_query_status(one) for one in progress]
        if queries != self._status.queries:
            self._write(replace(self._status, queries=queries))

    def end(self, state: str, error: str = "", failure: QueryFailed | None = None) -> None:
        """Where one query fails, the others are stopped."""
        others = STOPPED if state == FAILED else state
        queries = [
            replace(one, state=FAILED, note=failure.cause)
            if failure is not None and one.name == failure.query
            else replace(one, state=others)
            for one in self._status.queries
        ]
        self._write(replace(self._status, state=state, until=_now(), error=error, queries=queries))

    def _write(self, status: PipelineStatus) -> None:
        """Where it cannot be, the pipeline goes on all the same."""
        self._status = status
        partial = self._path.with_suffix(".tmp")
        try:
            partial.write_text(json.dumps(asdict(status), indent=1))
            partial.replace(self._path)
        except OSError as error:
            if not self._has_warned:
                say(f"the status of the pipeline is not kept: {error}")
            self._has_warned = True


def refuse_second(directory: str, name: str, queries: Sequence[str]) -> None:
    """Before Spark, which takes long to start; one that is started meanwhile is refused by the locks themselves."""
    for lock, what in _locks(directory, name, queries).items():
        try:
            with lock.open() as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _runs_already(what, lock) from None
        except OSError:
            # It was never run, or there are no locks here.
            continue


def _locks(directory: str, name: str, queries: Sequence[str]) -> dict[Path, str]:
    """Each with what it stands for."""
    of_queries = {Path(directory, f"{query}.query.lock"): f"query {query!r} of another pipeline" for query in queries}
    return {Path(directory, f"{name}.status.lock"): f"pipeline {name!r}", **of_queries}


def _runs_already(what: str, lock: Path) -> PipelineError:
    return PipelineError(
        f"{what} runs already with the checkpoint {lock.parent}: stop it, or give another --checkpoint"
    )


def read_status(directory: str, name: str) -> PipelineStatus | None:
    """What the file says, corrected where its writer is gone; None if this pipeline has not run here."""
    path = Path(directory, f"{name}.status.json")
    status = _parsed(path)
    if status is None or status.state != RUNNING or _is_held(path.with_suffix(".lock")):
        return status
    # It may have ended in good order between the two looks.
    status = _parsed(path)
    if status is None or status.state != RUNNING:
        return status
    return replace(status, state=KILLED, queries=[replace(one, state=KILLED) for one in status.queries])


def _parsed(path: Path) -> PipelineStatus | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text())
        return PipelineStatus(**{**found, "queries": [QueryStatus(**one) for one in found["queries"]]})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise PipelineError(f"cannot read {path}: {error}") from error


def lines_of(status: PipelineStatus, lags: Mapping[str, int]) -> list[str]:
    """A line about the pipeline, and a table of its queries; `lags` are of this moment."""
    ended = f", until {status.until}" if status.until else ""
    head = f"pipeline {status.name}: {status.state}, process {status.process}, since {status.since}{ended}"
    if status.error:
        head += f": {status.error}"
    rows = [COLUMNS, *(_row(query, lags.get(query.name, query.lag)) for query in status.queries)]
    widths = [max(len(row[place]) for row in rows) for place in range(len(COLUMNS))]
    return [head, *("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)]


def _row(query: QueryStatus, lag: int | None) -> tuple[str, ...]:
    has_batch = query.batch >= 0
    return (
        query.name,
        query.state,
        str(query.batch) if has_batch else "-",
        short(query.events_per_second) if has_batch else "-",
        "-" if lag is None else str(lag),
        query.last_batch or "-",
        f"{query.batch_ms} ms" if has_batch else "-",
        query.note,
    )


def _query_status(progress: QueryProgress) -> QueryStatus:
    return QueryStatus(
        name=progress.name,
        batch=progress.batch,
        events_per_second=progress.events_per_second,
        lag=progress.lag,
        lag_s=progress.lag_s,
        last_batch=progress.timestamp,
        batch_ms=progress.batch_ms,
        note=progress.note,
    )


def _is_locked_by_us(descriptor: int) -> bool:
    """Those who look at the lock have it for a moment. Where a file system has no locks, Spark refuses a second run."""
    give_up_at = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up_at:
                return False
            time.sleep(LOCK_SECONDS / 20)
        except OSError:
            return True
        else:
            return True


def _is_held(lock: Path) -> bool:
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        # Held, or no file system for locks: then the file has the last word.
        return True
    return False


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
