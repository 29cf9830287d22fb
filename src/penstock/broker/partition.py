"""Where a partition's log, its checks and those who wait for its records meet."""

from collections.abc import Callable

from penstock.model.buffers import Buffer
from penstock.model.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidTimestamp,
    InvalidTxnState,
    KafkaError,
    MessageTooLarge,
    UnknownLeaderEpoch,
    UnsupportedCompressionType,
)
from penstock.records import (
    BatchView,
    Codec,
    CorruptBatch,
    RecordsError,
    UnsupportedCompression,
    parse_produced,
    scan,
    with_max_timestamp,
)
from penstock.storage.log import Appended, Log
from penstock.world.disk import FileRange

LEADER_EPOCH = 0
ANY_EPOCH = -1


class Partition:
    """A replica that leads: the only one there is on a single node."""

    def __init__(self, topic: str, index: int, log: Log) -> None:
        self.topic = topic
        self.index = index
        self.log = log
        self.leader_epoch = LEADER_EPOCH
        self._listeners: dict[Callable[[int], None], None] = {}

    @property
    def high_watermark(self) -> int:
        return self.log.end_offset

    def append(self, data: Buffer, *, max_bytes: int, allows_zstd: bool) -> Appended:
        """Check what a producer sent and append it; those who wait for records hear of it."""
        batch = _checked(data, max_bytes, allows_zstd)
        appended = self.log.append(batch, self.leader_epoch)
        if not appended.is_duplicate:
            for listener in list(self._listeners):
                listener(batch.size)
        return appended

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool) -> FileRange | None:
        return self.log.read(offset, max_bytes, at_least_one_batch=at_least_one_batch)

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client whose idea of the leader is older or newer than ours."""
        if current_leader_epoch in (ANY_EPOCH, self.leader_epoch):
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch(f"leader epoch {current_leader_epoch} is older than {self.leader_epoch}")
        raise UnknownLeaderEpoch(f"leader epoch {current_leader_epoch} is newer than {self.leader_epoch}")

    def listen(self, listener: Callable[[int], None]) -> None:
        """Call `listener` with the size of every batch appended from now on."""
        self._listeners[listener] = None

    def unlisten(self, listener: Callable[[int], None]) -> None:
        self._listeners.pop(listener, None)


def _checked(data: Buffer, max_bytes: int, allows_zstd: bool) -> BatchView:
    try:
        batch = parse_produced(data)
        if batch.size > max_bytes:
            raise MessageTooLarge(f"the batch has {batch.size} bytes; this broker takes at most {max_bytes}")
        if batch.codec == Codec.NONE:
            batch = _with_true_max_timestamp(batch)
    except RecordsError as error:
        raise _as_kafka_error(error) from error
    if batch.codec == Codec.ZSTD and not allows_zstd:
        raise UnsupportedCompressionType("zstd needs Produce version 7 or newer")
    if batch.is_log_append_time:
        raise InvalidTimestamp("the time of appending is the broker's to set")
    if batch.is_transactional:
        raise InvalidTxnState("transactions are not served yet")
    return batch


def _with_true_max_timestamp(batch: BatchView) -> BatchView:
    """Read the records once: they must be well formed, and lookups by time rely on the header's maximum."""
    scanned = scan(batch.body, batch.record_count)
    max_timestamp = batch.base_timestamp + scanned.max_timestamp_delta
    return batch if max_timestamp == batch.max_timestamp else BatchView(with_max_timestamp(batch, max_timestamp))


def _as_kafka_error(error: RecordsError) -> KafkaError:
    if isinstance(error, CorruptBatch):
        return CorruptMessage(str(error))
    if isinstance(error, UnsupportedCompression):
        return UnsupportedCompressionType(str(error))
    return InvalidRecord(str(error))
