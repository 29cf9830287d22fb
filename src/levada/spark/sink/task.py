"""What a task does on its executor: write its rows, and leave their transaction open for the driver."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from levada.client.blocking import Producer
from levada.client.errors import KafkaError, TimedOut
from levada.client.options import producer_options
from levada.client.producer import ManyHandle, TransactionTicket
from levada.spark.options import OptionError
from levada.spark.sink.brokers import MOST_TASKS, abilities, has_room, read_marker, too_many_tasks
from levada.spark.sink.columns import RowRefused, rows_by_topic
from levada.spark.sink.kept import kept_admin, kept_producer, new_producer
from levada.spark.sink.names import WriteName
from levada.spark.sink.options import Delivery, SinkOptions
from levada.spark.sink.report import TaskReport

T = TypeVar("T")


class WriteFailed(RuntimeError):
    """Rows that brokers did not take; the text is one line that says why."""


@dataclass(frozen=True, slots=True)
class WriteAttempt:
    """One attempt at one part of a batch."""

    name: WriteName
    number: int | None
    """Of the batch; None where it does not matter whether it was written before."""
    partition: int
    attempt: int
    run: str | None = None
    """Of the query: only the first batch of a run can have been written before."""


MOST_LOOKED_UP = 1_000
_looked_up: dict[tuple[WriteName, str], None] = {}
"""Runs whose marker this worker has read: what comes later in the same run is new. The last ones, in their order."""


def write_rows(options: SinkOptions, task: WriteAttempt, batches: Iterator[pa.RecordBatch]) -> TaskReport:
    """Write all rows, and report what the driver has to know of it."""
    try:
        delivery = settled_delivery(options)
        if delivery is Delivery.EXACTLY_ONCE and _is_visible(options, task):
            return TaskReport(task.name, delivery, is_skipped=True)
        write = _WRITES[delivery]
        for first in batches:
            if first.num_rows:
                return write(options, task, first, batches)
    except KafkaError as error:
        raise WriteFailed(f"rows were not written: {error}") from error
    return TaskReport(task.name, delivery)


def settled_delivery(options: SinkOptions) -> Delivery:
    """What was asked for, or the best that the brokers can do."""
    if options.delivery in (Delivery.AT_LEAST_ONCE, Delivery.ATOMIC_TASKS):
        return options.delivery
    if abilities(options).can_commit_groups:
        return Delivery.EXACTLY_ONCE
    servers = options.settings["bootstrap.servers"]
    if options.delivery is Delivery.EXACTLY_ONCE or options.version is not None:
        raise OptionError(
            f"the brokers at {servers} cannot commit a batch as a whole, as Levada's do: "
            "use delivery=atomic-tasks or delivery=at-least-once"
        )
    return Delivery.AT_LEAST_ONCE


def _is_visible(options: SinkOptions, task: WriteAttempt) -> bool:
    """Whether the rows need not be written again. It only saves work: the driver decides."""
    if task.number is None or (task.run is not None and (task.name, task.run) in _looked_up):
        return False
    with kept_admin(options) as admin:
        marker = read_marker(admin, task.name, is_stable=False)
    if marker is not None and marker >= task.number:
        return True
    if task.run is not None:
        note_looked_up(task.name, task.run)
    return False


def note_looked_up(name: WriteName, run: str) -> None:
    """One that is forgotten is looked up again."""
    _looked_up[name, run] = None
    while len(_looked_up) > MOST_LOOKED_UP:
        del _looked_up[next(iter(_looked_up))]


def _exactly_once(
    options: SinkOptions, task: WriteAttempt, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> TaskReport:
    # Tasks without rows count nothing, so that a number of partitions alone says little; below it, all have room.
    if task.partition >= MOST_TASKS and not has_room(options, task.name):
        raise WriteFailed(too_many_tasks(f"{MOST_TASKS} other"))
    count = abilities(options).coordinator_count
    transactional_id = task.name.task_id(task.partition, task.attempt, partition_count=count)
    # A write without a number has a random name, which no other one will have.
    given = new_producer(options, transactional_id) if task.number is None else kept_producer(options, transactional_id)
    with _begun(given, options) as producer:
        rows = _send_all(producer, options, first, rest)
        return TaskReport(task.name, Delivery.EXACTLY_ONCE, rows, hand_over(producer))


def _atomic_task(
    options: SinkOptions, task: WriteAttempt, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> TaskReport:
    with _begun(new_producer(options, f"{task.name.prefix}{task.partition}-{task.attempt}"), options) as producer:
        rows = _send_all(producer, options, first, rest)
        _until_known(producer.commit_transaction)
        return TaskReport(task.name, Delivery.ATOMIC_TASKS, rows)


def _at_least_once(
    options: SinkOptions, task: WriteAttempt, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]
) -> TaskReport:
    with kept_producer(options) as producer:
        rows = _send_all(producer, options, first, rest)
    return TaskReport(task.name, Delivery.AT_LEAST_ONCE, rows)


_WRITES = {
    Delivery.EXACTLY_ONCE: _exactly_once,
    Delivery.ATOMIC_TASKS: _atomic_task,
    Delivery.AT_LEAST_ONCE: _at_least_once,
}


def hand_over(producer: Producer) -> TransactionTicket:
    """The ticket of a transaction that has all rows and stays open."""
    return _until_known(producer.hand_over_transaction)


@contextmanager
def _begun(given: AbstractContextManager[Producer], options: SinkOptions) -> Iterator[Producer]:
    """A producer in a transaction; if a task fails, it is closed, which aborts that, so that no reader waits for it."""
    with given as producer:
        producer.init_transactions(patience_seconds(options))
        producer.begin_transaction()
        yield producer


def _send_all(producer: Producer, options: SinkOptions, first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> int:
    """Send the rows of all batches; how many there were. Raises for the first that was refused so far."""
    sent: deque[ManyHandle] = deque()
    rows = 0
    for batch in chain((first,), rest):
        for topic, part in rows_by_topic(batch, options.topic, writes_headers=options.writes_headers):
            sent.append(_send(producer, topic, part))
        rows += batch.num_rows
        while sent and sent[0].done():
            sent.popleft().result()
    producer.flush()
    for handle in sent:
        handle.result()
    return rows


def _send(producer: Producer, topic: str, rows: pa.RecordBatch) -> ManyHandle:
    try:
        return producer.send_arrow(topic, rows)
    except ValueError as error:
        # Such as a partition that the topic does not have, or a null among the headers of a row.
        raise RowRefused(str(error)) from error


def _until_known(end: Callable[[], T]) -> T:
    """Repeat what ran into the time limit of one call; rows have a limit of their own, after which they fail."""
    while True:
        try:
            return end()
        except TimedOut as error:
            if error.needs_abort:
                raise


def patience_seconds(options: SinkOptions) -> float:
    """How long brokers that are away are waited for: as long as producers wait for the delivery of a row."""
    return float(producer_options(None, options.settings)["delivery.timeout.ms"]) / 1_000
