"""Tells a group's offsets to Kafka's tools; the checkpoint is the truth, so that a query goes on where this fails."""

import logging
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from levada import Admin
from levada.client.errors import Disconnected, KafkaError, TimedOut
from levada.model.error_codes import ErrorCode
from levada.spark.source.offsets import Offsets

logger = logging.getLogger("levada.spark")

NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
TIMEOUT_MS = 2_000
PAUSE_SECONDS = 30.0
"""After a commit that failed: the next ones may fail as well."""
ALL = ""
"""No group has this name."""


class OffsetCommitter:
    """No batch waits for it: a thread tells the newest offsets, one group at a time."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="levada-offsets")
        self._lock = threading.Lock()
        self._wanted: dict[str, Offsets] = {}
        self._untold: dict[str, Offsets] = {}
        """What came in a pause, or failed; only the thread has it."""
        self._committed: dict[str, Offsets] = {}
        self._not_before: dict[str, float] = {}
        self._warned: set[str] = set()

    def commit(self, group_id: str, offsets: Offsets) -> None:
        """Soon; what could not be told is told with the next."""
        with self._lock:
            self._wanted[group_id] = offsets
        self._thread.submit(self._work)

    def commit_now(self, group_id: str, offsets: Offsets) -> None:
        """Return when it was tried, in a pause too: Spark may end this process when the query has no more batches."""
        with self._lock:
            self._wanted[group_id] = offsets
        self._thread.submit(self._work).result()
        self._thread.submit(self._retry, [group_id]).result()

    def close(self) -> None:
        """When the last offsets are told, or were tried once more."""
        self._thread.submit(self._retry)
        self._thread.shutdown()

    def _retry(self, groups: Sequence[str] | None = None) -> None:
        """Whatever is left of these groups, or of all, until brokers do not answer."""
        for group_id in [each for each in self._untold if groups is None or each in groups]:
            self._not_before.pop(group_id, None)
            self._not_before.pop(ALL, None)
            self._try(group_id, self._untold[group_id])
            if ALL in self._not_before:
                return

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    return
                group_id, offsets = self._wanted.popitem()
            self._try(group_id, offsets)

    def _try(self, group_id: str, offsets: Offsets) -> None:
        self._untold[group_id] = offsets
        try:
            if self._tell(group_id, offsets):
                del self._untold[group_id]
        except Exception:
            logger.exception("group %s: progress is not committed, the query goes on", group_id)

    def _tell(self, group_id: str, offsets: Offsets) -> bool:
        """What is new of these; whether that is known now."""
        known = self._committed.get(group_id, {})
        changed = {partition: offset for partition, offset in offsets.items() if known.get(partition) != offset}
        if not changed:
            return True
        if time.monotonic() < max(self._not_before.get(group_id, 0.0), self._not_before.get(ALL, 0.0)):
            return False
        try:
            outcomes = self._admin.alter_group_offsets(group_id, changed, timeout_ms=TIMEOUT_MS)
            for error in outcomes.errors.values():
                if error.code not in NOT_THERE:
                    raise error
        except KafkaError as error:
            if group_id not in self._warned:
                logger.warning("group %s: progress is not committed, the query goes on: %s", group_id, error)
            self._warned.add(group_id)
            # What is wrong with one group keeps no other back; brokers that do not answer do.
            paused = ALL if isinstance(error, Disconnected | TimedOut) else group_id
            self._not_before[paused] = time.monotonic() + PAUSE_SECONDS
            return False
        self._committed[group_id] = known | changed
        return True
