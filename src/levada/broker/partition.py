"""Where a partition's log, its place in the cluster and the fetches that wait for its records meet."""

import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from levada.metadata.image import PartitionState
from levada.model.buffers import Buffer
from levada.model.errors import (
    FencedLeaderEpoch,
    InvalidTransactionState,
    KafkaStorageError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    RecordTooLarge,
    UnknownLeaderEpoch,
)
from levada.records import BatchView
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.outcomes import Appended, MarkersAppended
from levada.storage.producers import Origin, TransactionEnd
from levada.storage.validation import MAX_OPENED_AT_ONCE, check_plain, validate

logger = logging.getLogger(__name__)

ANY_EPOCH = -1

Watcher: TypeAlias = "Callable[[Partition, int], None]"
"""Hears of every change that a reader may see, with the bytes that were appended by it (0 for other changes)."""


class Partition:
    """The replica of a partition that this broker has."""

    __slots__ = (
        "_begin_flush",
        "_watchers",
        "before_first_append",
        "index",
        "is_leader",
        "is_removed",
        "leader_epoch",
        "log",
        "name",
        "state",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, index: int, log: Log, begin_flush: Callable[[Log], object]) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.name = f"{topic}-{index}"
        self._begin_flush = begin_flush
        self.go_on_with(log)
        self.is_leader = False
        self.is_removed = False
        self.leader_epoch = -1
        self.state = PartitionState(index, (), ())
        self.before_first_append: Callable[[], None] | None = None
        self._watchers: dict[Watcher, None] = {}

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    def go_on_with(self, log: Log) -> None:
        """Have this log, at first or after a move."""
        self.log = log
        log.on_flush = self._on_flush

    def reconfigure(self, config: LogConfig) -> None:
        """Go on with other settings; what waited for a flush may not have to wait any more."""
        self.log.reconfigure(config)
        self._on_flush()

    def follow(self, state: PartitionState, node_id: int) -> None:
        """Take the place that the cluster's metadata gives this replica."""
        self.state = state
        self.is_leader = state.leader == node_id
        if state.leader_epoch > self.leader_epoch:
            self.leader_epoch = state.leader_epoch
        if self.is_leader and self.leader_epoch > self.log.epochs.latest:
            self.log.epochs.assign(self.leader_epoch, self.log.end_offset)
        if self.is_leader and state.isr == (node_id,):
            # Alone in sync, what this replica has every in-sync replica has.
            self._commit()
        self.notify(0)

    def remove(self) -> None:
        """The topic is gone; a request that waits here learns it by trying again."""
        self.is_removed = True
        self.is_leader = False
        self.notify(0)
        self._watchers.clear()

    def append(
        self,
        data: Buffer,
        *,
        allows_zstd: bool,
        now_ms: int,
        is_verified: bool = False,
        max_opened: int = MAX_OPENED_AT_ONCE,
    ) -> Appended:
        """Check what a producer sent and append it; fetches that wait for records hear of it.

        Records of a transaction are taken when the coordinator has verified that they are part of it (KIP-890). A batch
        that must be opened and holds more than so many bytes is TakesLong.
        """
        self.refuse_if_not_leader()
        config, name = self.log.config, self.name
        batch = validate(
            data, config, allows_zstd=allows_zstd, now_ms=now_ms, topic_partition=name, max_opened=max_opened
        )
        return self.append_checked(batch, now_ms=now_ms, is_verified=is_verified)

    def append_checked(self, batch: BatchView, *, now_ms: int, is_verified: bool) -> Appended:
        """Append what `validate` has passed."""
        log = self._begin_append()
        if batch.is_transactional and not is_verified:
            raise InvalidTransactionState("records of a transaction that its coordinator has not verified")
        appended = log.append(batch, leader_epoch=self.leader_epoch, origin=Origin.CLIENT, now_ms=now_ms)
        if not appended.is_duplicate:
            self._end_append(batch.size)
        return appended

    def append_plain(self, data: memoryview, now_ms: int) -> tuple[int, int] | None:
        """Append a plain batch inside its request's buffer, without a view of it: the fast path of produce.

        Gives its first offset and how many records it has; None for a batch that only `append` can check.
        """
        plain = None if data.readonly else check_plain(data, self.log.config, now_ms)
        if plain is None:
            return None
        base_offset = self._begin_append().append_plain(data, plain, leader_epoch=self.leader_epoch, now_ms=now_ms)
        self._end_append(len(data))
        return base_offset, plain[0] + 1

    def append_own(self, data: Buffer, now_ms: int) -> Appended:
        """Append what a coordinator of this broker has made; its records need no check."""
        log = self._begin_append()
        self.refuse_if_too_large(len(data))
        appended = log.append(BatchView(data), leader_epoch=self.leader_epoch, origin=Origin.COORDINATOR, now_ms=now_ms)
        self._end_append(len(data))
        return appended

    def has_transaction_of(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether records of a transaction of this producer are here, and its end is not."""
        producer = self.log.producers.get(producer_id)
        return producer is not None and producer.epoch == producer_epoch and producer.transaction_start is not None

    def append_markers(self, ends: Sequence[TransactionEnd], group: bytes, now_ms: int) -> MarkersAppended:
        """End transactions, those of a group commit as one: readers see all ends or none."""
        log = self._begin_append()
        appended = log.append_markers(ends, leader_epoch=self.leader_epoch, now_ms=now_ms, group=group)
        self._end_append(appended.size)
        return appended

    def _begin_append(self) -> Log:
        """The log, for every kind of append: only the leader writes, and to a log that is ready for a first record."""
        if not self.is_leader:
            self.refuse_if_not_leader()
        if self.before_first_append is not None:
            self._prepare(self.before_first_append)
        return self.log

    def _end_append(self, size: int) -> None:
        """After every kind of append: move the high watermark if it may, and tell the readers that wait."""
        if self._commit() and self._watchers:
            self.notify(size)

    def _commit(self) -> bool:
        """Whether readers may see all that the log has now: not before it is flushed, where configuration wants that.

        With one replica, what the leader has appended every in-sync replica has.
        """
        log = self.log
        if log.may_wait_for_flush and (log.awaits_flush or log.is_offline):
            if not log.is_offline:
                self._begin_flush(log)
            return False
        log.set_high_watermark(log.end_offset)
        return True

    def _on_flush(self) -> None:
        """A flush has ended: readers may see what it covers, or must hear that the log is offline."""
        log = self.log
        before = log.high_watermark
        if self.is_leader and not log.is_offline:
            # What came while it ran and is to be flushed as well has another one.
            log.set_high_watermark(max(before, log.recovery_point) if log.awaits_flush else log.end_offset)
        if log.is_offline or log.high_watermark != before:
            self.notify(0)

    def _prepare(self, prepare: Callable[[], None]) -> None:
        try:
            prepare()
        except OSError as error:
            raise KafkaStorageError(f"cannot begin the log of {self.name}: {error}") from error
        self.before_first_append = None

    def delete_records(self, offset: int) -> int:
        """Begin the log at an offset, or at the high watermark for -1; returns where it begins now."""
        self.refuse_if_not_leader()
        if self.log.is_offline:
            raise KafkaStorageError(f"the log of {self.name} is offline")
        wanted = self.high_watermark if offset == -1 else offset
        if not 0 <= wanted <= self.high_watermark:
            raise OffsetOutOfRange(
                f"cannot delete up to {wanted} in {self.name}: its high watermark is {self.high_watermark}"
            )
        self.log.raise_start(wanted)
        self.notify(0)
        return self.log.start_offset

    @property
    def min_in_sync_replicas(self) -> int:
        """As in Apache, no more can be wanted than there are replicas."""
        return min(self.log.config.min_insync_replicas, len(self.state.replicas))

    def refuse_if_too_few_in_sync(self) -> None:
        """For a write that wants all in-sync replicas: there must be enough of them to be worth waiting for."""
        wanted = self.min_in_sync_replicas
        if len(self.state.isr) < wanted:
            raise NotEnoughReplicas(
                f"The size of the current ISR is {len(self.state.isr)}, insufficient to satisfy the min.isr "
                f"requirement of {wanted} for partition {self.name}"
            )

    def refuse_if_too_large(self, size: int) -> None:
        if size > self.log.config.max_message_bytes:
            raise RecordTooLarge(f"{size} bytes; {self.name} takes at most {self.log.config.max_message_bytes}")

    def refuse_if_not_leader(self) -> None:
        if not self.is_leader:
            raise NotLeaderOrFollower(f"this broker does not lead {self.name}")

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client whose idea of the leader is older or newer than ours."""
        if current_leader_epoch in (ANY_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"leader epoch {current_leader_epoch} is older than {self.leader_epoch}")
        raise UnknownLeaderEpoch(f"leader epoch {current_leader_epoch} is newer than {self.leader_epoch}")

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    def notify(self, size: int) -> None:
        for watcher in tuple(self._watchers):
            try:
                watcher(self, size)
            except Exception:
                # Neither the append or flush that is told of has failed, nor are the other watchers to blame.
                logger.exception("watcher failed partition=%s", self.name)
