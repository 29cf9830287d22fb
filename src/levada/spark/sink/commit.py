"""What the driver does with the transactions of a batch: commit all that Spark reported as one, or end them."""

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from levada.client.blocking import Admin, Producer
from levada.client.errors import KafkaError
from levada.client.producer import TransactionTicket
from levada.client.types import GroupMetadata, OffsetAndMetadata
from levada.spark.sink.brokers import MOST_TASKS, abort_reported, end_open, read_marker, too_many_tasks
from levada.spark.sink.kept import DriverProducer, driver_key, drivers, kept_admin
from levada.spark.sink.names import MARKER_PARTITION, BatchMarker, WriteName
from levada.spark.sink.options import SinkOptions
from levada.spark.sink.report import TaskReport
from levada.spark.sink.task import patience_seconds

logger = logging.getLogger("levada.spark")

DRIVER_TIMEOUT_MS = 30_000
"""Of the transaction with the marker, which is open for one request only."""

MARKER_TEXT = "last batch that Spark has written"
"""What Kafka's tools show beside the marker."""


class BatchCommitFailed(RuntimeError):
    """A batch that did not become visible, or of which that is not known; the text is one line."""


class BatchCommit:
    """Makes one batch visible."""

    def __init__(
        self, options: SinkOptions, name: WriteName, marker: BatchMarker | None, reports: Sequence[TaskReport]
    ) -> None:
        self._options = options
        self._name = name
        self._marker = marker
        self._tickets = [report.ticket for report in reports if report.ticket is not None]
        self._has_skipped = any(report.is_skipped for report in reports)
        self._patience = patience_seconds(options)
        self._goes_on = False
        """Whether the last attempt was that of a producer that had decided before."""

    def run(self) -> None:
        """Return when the batch is visible; nothing is done for one that has no rows.

        A batch without rows leaves no marker. If it is run again and has rows then, they are the first of it that a
        consumer sees.
        """
        if not self._tickets and not self._has_skipped:
            return
        if len(self._tickets) > MOST_TASKS:
            raise BatchCommitFailed(too_many_tasks(len(self._tickets)))
        give_up_at = time.monotonic() + self._patience
        while True:
            began_at = time.monotonic()
            try:
                with kept_admin(self._options) as admin:
                    self._decide(admin)
                    self._clean_up(admin)
                return
            except KafkaError as error:
                if self._goes_on:
                    # Another worker may have committed a batch meanwhile, and taken the epoch with it.
                    continue
                if time.monotonic() > give_up_at or not _is_worth_repeating(error, time.monotonic() - began_at):
                    raise self._failure(error) from error

    def _decide(self, admin: Admin) -> None:
        """One attempt at the decision. The marker tells whether an earlier attempt, here or elsewhere, was one.

        A producer that has decided about the batch before, and has its epoch still, need not look: no other driver has
        decided anything since then, for it would have taken the epoch.
        """
        with self._driver() as driver:
            producer = driver.producer
            self._goes_on = driver.decided is not None
            if not self._goes_on:
                producer.init_transactions(self._patience)
                if self._marker is not None and self._is_visible(admin, self._marker):
                    return
            if self._has_skipped:
                raise BatchCommitFailed(
                    f"tasks found the batch written, and now its marker in group {self._name.marker_group!r} is gone: "
                    "find out which batches were written, and by what it was deleted, before the query goes on"
                )
            producer.begin_transaction()
            if self._marker is not None:
                producer.send_offsets_to_transaction(
                    {MARKER_PARTITION: OffsetAndMetadata(self._marker.number, MARKER_TEXT)},
                    GroupMetadata(self._name.marker_group),
                    self._patience,
                )
            producer.commit_group(self._tickets, self._patience)
            driver.decided = None if self._marker is None else self._marker.number

    @contextmanager
    def _driver(self) -> Iterator[DriverProducer]:
        """The producer that decides: the one of the batch before, if this batch comes after it, else a new one."""
        key = driver_key(self._options, self._name.driver_id)
        known = drivers.kept(key)
        if known is not None and not self._follows(known):
            drivers.drop(key)
        with drivers.taken(key, self._new_driver) as driver:
            yield driver
        if driver.decided is None:
            drivers.drop(key)

    def _follows(self, known: DriverProducer) -> bool:
        """Whether this batch is a later one than the last that a producer has decided about."""
        if self._marker is None or known.decided is None or self._has_skipped:
            return False
        return self._marker.number > known.decided

    def _new_driver(self) -> DriverProducer:
        settings = {**self._options.settings, "transactional.id": self._name.driver_id}
        return DriverProducer(Producer(**settings, transaction_timeout_ms=DRIVER_TIMEOUT_MS))

    def _is_visible(self, admin: Admin, marker: BatchMarker) -> bool:
        found = read_marker(admin, self._name, is_stable=True, timeout_ms=self._patience * 1_000)
        if found is None or found < marker.number:
            return False
        if marker.is_exact and found > marker.number:
            raise BatchCommitFailed(
                f"batch {found} of this query is written, and Spark is at batch {marker.number} again: the checkpoint "
                "is older than the output, and its batches may not be those written; begin with a new checkpoint"
            )
        return True

    def _clean_up(self, admin: Admin) -> None:
        """The batch is visible, come what may: what fails here is left to the next batch, or to timeouts."""
        try:
            end_open(admin, self._name)
        except KafkaError as error:
            logger.warning("open transactions of %s are left to their timeouts: %s", self._name.prefix, error)

    def _failure(self, error: KafkaError) -> BatchCommitFailed:
        if error.retriable:
            return BatchCommitFailed(
                f"it is not known whether the batch was written: {error}; run it again to find out"
            )
        return BatchCommitFailed(
            f"the batch was not written: {error}; a transaction has ended before its time: another run of the same "
            "query has taken over, or the batch took longer than transactionTimeout "
            f"({self._options.transaction_timeout_ms} ms)"
        )


def abort(options: SinkOptions, name: WriteName, reports: Sequence[TaskReport]) -> None:
    """End what tasks have left open. What was committed stays: Spark also calls this when it does not know."""
    tickets: list[TransactionTicket] = [report.ticket for report in reports if report.ticket is not None]
    try:
        with kept_admin(options) as admin:
            # If one has another owner by now, another run of the query is at work, and its tasks are not ours to end.
            if abort_reported(admin, tickets):
                end_open(admin, name)
    except KafkaError as error:
        # Spark has a reason for the abort to tell, and that is the one to be seen.
        logger.warning("open transactions of %s are left to their timeouts: %s", name.prefix, error)


def _is_worth_repeating(error: KafkaError, seconds: float) -> bool:
    """What may pass; and the end of the driver's own transaction, if it had time to run into its timeout."""
    return error.retriable or seconds * 1_000 >= DRIVER_TIMEOUT_MS
