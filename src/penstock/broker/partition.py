"""Where a partition's log, its checks and those who wait for its records meet."""

from collections.abc import Callable

from penstock.model.buffers import Buffer
from penstock.model.errors import FencedLeaderEpoch, InvalidTxnState, UnknownLeaderEpoch
from penstock.storage.log import Appended, Log
from penstock.storage.producers import Origin
from penstock.storage.validation import validate
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
        return self.log.high_watermark

    def append(self, data: Buffer, *, allows_zstd: bool, now_ms: int) -> Appended:
        """Check what a producer sent and append it; those who wait for records hear of it."""
        batch = validate(data, self.log.config, allows_zstd=allows_zstd, now_ms=now_ms)
        if batch.is_transactional:
            raise InvalidTxnState("transactions are not served yet")
        appended = self.log.append(batch, leader_epoch=self.leader_epoch, origin=Origin.CLIENT, now_ms=now_ms)
        # With one replica, what the leader has appended every in-sync replica has.
        self.log.raise_high_watermark(self.log.end_offset)
        if not appended.is_duplicate:
            for listener in list(self._listeners):
                listener(batch.size)
        return appended

    def read(self, offset: int, max_bytes: int, *, at_least_one_batch: bool) -> FileRange | None:
        return self.log.read(
            offset, max_bytes, at_least_one_batch=at_least_one_batch, upper_offset=self.log.high_watermark
        )

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
