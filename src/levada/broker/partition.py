"""Where a partition's log, its place in the cluster and those who wait for its records meet."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

from levada.metadata.image import PartitionState
from levada.model.buffers import Buffer
from levada.model.errors import (
    FencedLeaderEpoch,
    InvalidTxnState,
    KafkaStorageError,
    MessageTooLarge,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
)
from levada.records import BatchView
from levada.storage.log import Log
from levada.storage.outcomes import Appended
from levada.storage.producers import Origin, TransactionEnd
from levada.storage.replay import MARKER_SIZE
from levada.storage.validation import check_plain, validate
from levada.world.disk import FileRange

ANY_EPOCH = -1

Watcher: TypeAlias = "Callable[[Partition, int], None]"
"""Hears of every change that a reader may see, with the bytes that were appended by it (0 for other changes)."""


class Partition:
    """The replica of a partition that this broker has."""

    __slots__ = (
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

    def __init__(self, topic: str, topic_id: bytes, index: int, log: Log) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.name = f"{topic}-{index}"
        self.log = log
        self.is_leader = False
        self.is_removed = False
        self.leader_epoch = -1
        self.state = PartitionState(index, (), ())
        self.before_first_append: Callable[[], None] | None = None
        self._watchers: dict[Watcher, None] = {}

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

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
            self.log.raise_high_watermark(self.log.end_offset)
        self.notify(0)

    def remove(self) -> None:
        """The topic is gone; whoever waits here learns it by trying again."""
        self.is_removed = True
        self.is_leader = False
        self.notify(0)
        self._watchers.clear()

    def append(self, data: Buffer, *, allows_zstd: bool, now_ms: int, is_verified: bool = False) -> Appended:
        """Check what a producer sent and append it; those who wait for records hear of it.

        Records of a transaction are taken when the coordinator has verified that they are part of it (KIP-890).
        """
        if not self.is_leader:
            self.refuse_if_not_leader()
        log = self.log
        batch = validate(data, log.config, allows_zstd=allows_zstd, now_ms=now_ms, topic_partition=self.name)
        if batch.is_transactional and not is_verified:
            raise InvalidTxnState("records of a transaction that nobody has verified")
        if self.before_first_append is not None:
            self._prepare(self.before_first_append)
        appended = log.append(batch, leader_epoch=self.leader_epoch, origin=Origin.CLIENT, now_ms=now_ms)
        if not appended.is_duplicate:
            # With one replica, what the leader has appended every in-sync replica has.
            log.raise_high_watermark(log.end_offset)
            if self._watchers:
                self.notify(batch.size)
        return appended

    def append_plain(self, data: memoryview, now_ms: int) -> tuple[int, int] | None:
        """The same for what is most common: a batch that is stored as it came, of no producer to be remembered.

        Gives its first offset and how many records it has; None if this is for `append` to deal with.
        """
        log = self.log
        plain = check_plain(data, log.config, now_ms)
        if plain is None or not self.is_leader or self.before_first_append is not None or data.readonly:
            return None
        base_offset = log.append_plain(data, plain, leader_epoch=self.leader_epoch, now_ms=now_ms)
        log.raise_high_watermark(log.end_offset)
        if self._watchers:
            self.notify(len(data))
        return base_offset, plain[0] + 1

    def append_own(self, data: Buffer, now_ms: int) -> Appended:
        """Append what a coordinator of this broker has made, and nobody need check."""
        self.refuse_if_not_leader()
        log = self.log
        if len(data) > log.config.max_message_bytes:
            raise MessageTooLarge(f"{len(data)} bytes; {self.name} takes at most {log.config.max_message_bytes}")
        if self.before_first_append is not None:
            self._prepare(self.before_first_append)
        appended = log.append(BatchView(data), leader_epoch=self.leader_epoch, origin=Origin.COORDINATOR, now_ms=now_ms)
        log.raise_high_watermark(log.end_offset)
        self.notify(len(data))
        return appended

    def has_transaction_of(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether records of a transaction of this producer are here, and its end is not."""
        producer = self.log.producers.get(producer_id)
        return producer is not None and producer.epoch == producer_epoch and producer.transaction_start is not None

    def append_markers(self, ends: Sequence[TransactionEnd], now_ms: int) -> bool:
        """End transactions; readers see all ends or none. Whether a flush is due."""
        self.refuse_if_not_leader()
        if self.before_first_append is not None:
            self._prepare(self.before_first_append)
        log = self.log
        due = log.append_markers(ends, leader_epoch=self.leader_epoch, now_ms=now_ms)
        log.raise_high_watermark(log.end_offset)
        self.notify(len(ends) * MARKER_SIZE)
        return due

    def _prepare(self, prepare: Callable[[], None]) -> None:
        try:
            prepare()
        except OSError as error:
            raise KafkaStorageError(f"cannot begin the log of {self.name}: {error}") from error
        self.before_first_append = None

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool) -> FileRange | None:
        log = self.log
        return log.read(offset, max_bytes, at_least_one_batch=at_least_one_batch, upper_offset=log.high_watermark)

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

    def refuse_if_too_few_in_sync(self) -> None:
        """For a write that wants all in-sync replicas: there must be enough of them to be worth waiting for."""
        # As Apache does: no more can be wanted than there are replicas.
        wanted = min(self.log.config.min_insync_replicas, len(self.state.replicas))
        if len(self.state.isr) < wanted:
            raise NotEnoughReplicas(
                f"The size of the current ISR is {len(self.state.isr)}, insufficient to satisfy the min.isr "
                f"requirement of {wanted} for partition {self.name}"
            )

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
            watcher(self, size)
