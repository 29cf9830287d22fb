"""What one fetch reads: passes over the partitions of its session until there is enough to answer."""

import asyncio
from collections.abc import Iterable

from levada.broker.broker import Broker
from levada.broker.fetch_sessions import (
    INITIAL_EPOCH,
    NO_SESSION,
    UNKNOWN_OFFSET,
    FetchSession,
    WantedPartition,
)
from levada.broker.partition import Partition
from levada.broker.route import Request
from levada.metadata.image import PartitionState
from levada.model.error_codes import ErrorCode
from levada.model.errors import (
    ApiError,
    InconsistentTopicId,
    InvalidFetchSessionEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from levada.storage.log import Log
from levada.world.disk import FileRange

READ_COMMITTED = 1
NOT_THERE = (UnknownTopicId, UnknownTopicOrPartition)
DIVERGENCE_SINCE = 12
NEW_LEADER_SINCE = 16
STORAGE_ERROR_SINCE = 6
SLICE = 500
"""How many of very many partitions are looked at before others have a turn."""


class Fetch:
    """One request: passes over what its session has to read until there is enough, then the answer."""

    __slots__ = (
        "_bytes_left", "_epoch", "_found", "_has_failed", "_is_committed", "_is_follower", "_is_incremental",
        "_listener", "_max_bytes", "_min_bytes", "_opens_session", "_unknown", "_version", "broker", "has_unseen",
        "session", "size",
    )  # fmt: skip

    def __init__(self, message: FetchRequest, request: Request, session: FetchSession, replica_id: int) -> None:
        self.broker = request.broker
        self.session = session
        self._version = request.version
        self._listener = request.listener
        self._is_follower = replica_id >= 0
        self._is_committed = message.isolation_level == READ_COMMITTED
        self._max_bytes = min(message.max_bytes, self.broker.settings.max_fetch_bytes)
        self._min_bytes = min(message.min_bytes, self._max_bytes)
        self._is_incremental = session.id != NO_SESSION
        self._opens_session = message.session_epoch == INITIAL_EPOCH
        self._epoch = session.epoch
        self._bytes_left = 0
        self._has_failed = False
        self._unknown = 0
        self._found: list[tuple[WantedPartition, PartitionData]] = []
        self.size = 0
        self.has_unseen = False
        """Whether a log has records that may not be read yet."""

    @property
    def missing_bytes(self) -> int:
        return self._min_bytes - self.size

    def read(self) -> bool:
        """One pass over the partitions where something may have changed; whether the client should hear of it now."""
        if self.session.epoch != self._epoch:
            return True
        self._begin()
        self._read_each(tuple(self.session.dirty))
        return self._is_enough()

    async def read_in_slices(self) -> bool:
        """The same for very many partitions, with turns for others in between."""
        self._begin()
        dirty = tuple(self.session.dirty)
        for start in range(0, len(dirty), SLICE):
            if self.session.epoch != self._epoch:
                return True
            self._read_each(dirty[start : start + SLICE])
            await asyncio.sleep(0)
        return self._is_enough()

    def _begin(self) -> None:
        self._bytes_left = self._max_bytes
        self._has_failed = self.has_unseen = False
        self.size = self._unknown = 0
        self._found = []

    def _is_enough(self) -> bool:
        is_all_unknown = self._unknown == len(self.session.partitions)
        return self.size >= self._min_bytes or self._has_failed or is_all_unknown

    def _read_each(self, dirty: Iterable[WantedPartition]) -> None:
        for wanted in dirty:
            try:
                partition = wanted.partition
                if partition is None or partition.is_removed:
                    partition = find_partition(wanted, self.broker)
                self._read(wanted, partition)
            except NOT_THERE as error:
                # As Apache does: what is not there yet does not keep the others from waiting; what has gone ends it.
                self._unknown += 1
                self._has_failed |= partition is not None
                self._refuse(wanted, error)
            except ApiError as error:
                self._has_failed = True
                self._refuse(wanted, error)

    def forget(self) -> None:
        """Let go of what the last pass found; there will be another."""
        self._found = []

    def answer(self) -> FetchResponse:
        """What the last pass found; the session takes note of it."""
        session = self.session
        if session.epoch != self._epoch:
            return FetchResponse(error_code=InvalidFetchSessionEpoch.code, session_id=session.id, responses=[])
        if self._opens_session:
            self.broker.fetch_sessions.keep(session, self.broker.clock.monotonic_ms())
        response = FetchResponse(session_id=session.id, responses=[])
        self._put_into(response, self._found)
        if self._has_failed and self._version >= NEW_LEADER_SINCE:
            self._name_leaders(response, self._found)
        return response

    async def answer_in_slices(self) -> FetchResponse:
        """The same for very many partitions, with turns for others in between."""
        found, self._found = self._found, []
        response = self.answer()
        for start in () if response.error_code else range(0, len(found), SLICE):
            if self.session.epoch != self._epoch and not self._opens_session:
                return FetchResponse(error_code=InvalidFetchSessionEpoch.code, session_id=self.session.id, responses=[])
            part = found[start : start + SLICE]
            self._put_into(response, part)
            if self._has_failed and self._version >= NEW_LEADER_SINCE:
                self._name_leaders(response, part)
            await asyncio.sleep(0)
        return response

    def _put_into(self, response: FetchResponse, found: "Iterable[tuple[WantedPartition, PartitionData]]") -> None:
        topics = response.responses
        last: FetchableTopicResponse | None = topics[-1] if topics else None
        for wanted, data in found:
            name = wanted.topic or ""
            if last is None or last.topic != name or last.topic_id != wanted.topic_id:
                last = FetchableTopicResponse(topic=name, topic_id=wanted.topic_id, partitions=[])
                topics.append(last)
            last.partitions.append(data)
            _note(wanted, data, self.session.dirty)

    def _read(self, wanted: WantedPartition, partition: Partition) -> None:
        ask = wanted.ask
        if ask.current_leader_epoch != partition.leader_epoch or not partition.is_leader or self._is_follower:
            check_reader(partition, ask.current_leader_epoch, is_follower=self._is_follower)
        log = partition.log
        offset = ask.fetch_offset
        high_watermark, last_stable_offset = log.high_watermark, log.last_stable_offset
        records: FileRange | None = None
        diverging = None
        if ask.last_fetched_epoch >= 0 and self._version >= DIVERGENCE_SINCE:
            diverging = find_divergence(log, ask.last_fetched_epoch, offset)
        if diverging is None:
            records = self._read_log(log, ask, last_stable_offset if self._is_committed else high_watermark)
        else:
            self._has_failed = True
        if (
            records is None
            and self._is_incremental
            and high_watermark == wanted.sent_high_watermark
            and log.start_offset == wanted.sent_log_start
            and diverging is None
        ):
            if offset >= log.end_offset:
                self.session.dirty.pop(wanted, None)
            return
        data = PartitionData(
            partition_index=wanted.index,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=log.start_offset,
            diverging_epoch=diverging,
            aborted_transactions=None,
            records=b"" if records is None else records,
        )
        if self._is_committed:
            data.aborted_transactions = [] if records is None else find_aborted(log, offset, records.size)
        self._found.append((wanted, data))
        if records is not None:
            self.size += records.size
            self._bytes_left -= records.size

    def _read_log(self, log: Log, ask: FetchPartition, upper_offset: int) -> FileRange | None:
        if log.end_offset > upper_offset:
            self.has_unseen = True
        max_bytes = ask.partition_max_bytes
        if max_bytes > self._bytes_left:
            max_bytes = self._bytes_left
        if self.size and max_bytes <= 0:
            # No room is left: whether the offset is there at all must be said nevertheless.
            return log.read(ask.fetch_offset, 0, at_least_one_batch=False, upper_offset=ask.fetch_offset)
        records = log.read(ask.fetch_offset, max_bytes, at_least_one_batch=True, upper_offset=upper_offset)
        # The first batch of all comes whole however large it is, or a consumer could never get past it (KIP-74). A
        # later one that does not fit waits for the next fetch: a consumer that finds no whole batch gives up.
        return None if records is not None and self.size and records.size > max_bytes else records

    def _refuse(self, wanted: WantedPartition, error: ApiError) -> None:
        code = error.code
        if code == ErrorCode.KAFKA_STORAGE_ERROR and self._version < STORAGE_ERROR_SINCE:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        data = PartitionData(
            partition_index=wanted.index,
            error_code=code,
            high_watermark=UNKNOWN_OFFSET,
            aborted_transactions=[] if isinstance(error, NOT_THERE) else None,
            records=b"",
        )
        self._found.append((wanted, data))

    def _name_leaders(self, response: FetchResponse, found: "Iterable[tuple[WantedPartition, PartitionData]]") -> None:
        """Spare clients that came to the wrong broker, or with an old epoch, the way to the metadata."""
        named: dict[int, None] = {}
        for wanted, data in found:
            if data.error_code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
                state = _state_of(wanted, self.broker)
                if state is not None:
                    data.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
                    named[state.leader] = None
        # A follower knows its leader's address.
        told = [endpoint.node_id for endpoint in response.node_endpoints]
        for leader_id in () if self._is_follower else [leader for leader in named if leader not in told]:
            image = self.broker.image
            endpoint = image.live_endpoint(leader_id, self._listener)
            if endpoint is not None:
                rack = image.brokers[leader_id].rack
                response.node_endpoints.append(
                    NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port, rack=rack)
                )


def find_partition(wanted: WantedPartition, broker: Broker) -> Partition:
    """The replica to read. An id is looked up once, and stays with the name it had then (KIP-516)."""
    wanted.partition = None
    if wanted.topic is None:
        wanted.topic = broker.image.topic_names.get(wanted.topic_id)
        if wanted.topic is None:
            raise UnknownTopicId("This server does not host this topic ID.")
    partition = broker.replica(wanted.topic, wanted.index)
    if wanted.topic_id not in (NO_UUID, partition.topic_id):
        raise InconsistentTopicId("The topic was deleted and created again.")
    wanted.resolve(partition, broker.metrics.topic(wanted.topic))
    return partition


def check_reader(partition: Partition, epoch: int, *, is_follower: bool) -> None:
    """Refuse a fetch in the wrong epoch, at a broker that does not lead, or from a broker without a replica."""
    if epoch >= 0:
        partition.check_epoch(epoch)
    partition.refuse_if_not_leader()
    if is_follower:
        # The codes that Apache has for a replica it does not count among the partition's, with an epoch and without.
        raise UnknownLeaderEpoch("not a replica") if epoch >= 0 else NotLeaderOrFollower("not a replica")


def find_divergence(log: Log, last_fetched_epoch: int, offset: int) -> EpochEndOffset | None:
    """Where a reader's records and the log's part ways (KIP-595)."""
    epoch, end_offset = log.epochs.end_offset_of(last_fetched_epoch, log.end_offset)
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRange(f"nothing is known of epoch {last_fetched_epoch}")
    if epoch < last_fetched_epoch or end_offset < offset:
        return EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return None


def find_aborted(log: Log, offset: int, size: int) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
        for one in log.aborted_in_read(offset, size)
    ]


def _state_of(wanted: WantedPartition, broker: Broker) -> PartitionState | None:
    """What the cluster's metadata says of a partition."""
    topic = None if wanted.topic is None else broker.image.topics.get(wanted.topic)
    if topic is None or not 0 <= wanted.index < len(topic.partitions):
        return None
    return topic.partitions[wanted.index]


def _note(wanted: WantedPartition, data: PartitionData, dirty: dict[WantedPartition, None]) -> None:
    """Remember what the client is told, and whether there may be more to tell it the next time."""
    counters = wanted.counters
    if counters is not None:
        counters.total_fetch_requests += 1
    wanted.sent_log_start = data.log_start_offset
    if data.error_code:
        # Unknown, so that the partition is sent again when the error has gone.
        wanted.sent_high_watermark = UNKNOWN_OFFSET
        return
    wanted.sent_high_watermark = data.high_watermark
    if isinstance(data.records, FileRange):
        # To the end of the line: others have their turn before it (KIP-227).
        dirty.pop(wanted, None)
        dirty[wanted] = None
        assert counters is not None
        counters.bytes_out += data.records.size
        return
    assert wanted.partition is not None
    if data.diverging_epoch is None and wanted.ask.fetch_offset >= wanted.partition.log.end_offset:
        dirty.pop(wanted, None)
