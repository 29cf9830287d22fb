"""Fetches of one partition outside a session, from clients that have sent such a one before."""

from dataclasses import dataclass
from struct import Struct as Packed
from typing import Final

from levada.broker.broker import Broker
from levada.broker.fast_path import (
    AFTER_CORRELATION_ID,
    MAX_KEY_BYTES,
    FastPath,
    sample_topic,
)
from levada.broker.fetch_reading import READ_COMMITTED
from levada.broker.fetch_sessions import FINAL_EPOCH, NO_SESSION
from levada.broker.metrics import ApisCalled, TopicMetrics
from levada.broker.partition import ANY_EPOCH, Partition
from levada.broker.request_templates import ResponseTemplate
from levada.broker.route import Request
from levada.model.buffers import Buffer
from levada.model.errors import ApiError
from levada.net.reply import Reply
from levada.protocol.api import ApiKey
from levada.protocol.messages.fetch import (
    TOPIC_IDS_SINCE,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from levada.world.disk import FileRange

COPIED_BELOW: Final = 32768
"""Fewer bytes than this are put into one piece with the rest of the reply at once."""

_OFFSET_SIZE: Final = 8
_MARKED_OFFSET: Final = -0x0123456789ABCDEF
_RECORDS: Final = bytes(range(0x80, 0xC0))
_MARKED_OFFSETS: Final = (-0x0123456789ABCDEF, -0x1123456789ABCDEF, -0x2123456789ABCDEF)
_OFFSETS: Final = Packed(">qqq")
_OFFSET: Final = Packed(">q")


@dataclass(slots=True)
class KnownFetch:
    """What a request stands for, but for the offset."""

    partition: Partition
    counters: TopicMetrics
    leader_epoch: int
    min_bytes: int
    max_bytes: int
    reply: ResponseTemplate


class FetchFastPath(FastPath[FetchRequest, FetchResponse, KnownFetch]):
    """Does what the handler does where there are records to read, for readers with `read_uncommitted`."""

    api = ApiKey.FETCH
    versions = range(9, 19)
    """All of them name the leader's epoch, and their replies tell where the log starts."""

    def __init__(self, broker: Broker, apis: ApisCalled, version: int) -> None:
        super().__init__(broker, apis, version)
        self._unsent = broker.unsent
        name, topic_id = sample_topic(goes_by_name=version < TOPIC_IDS_SINCE)
        ask = FetchPartition(partition=0, fetch_offset=_MARKED_OFFSET, partition_max_bytes=0)
        topic = FetchTopic(topic=name, topic_id=topic_id, partitions=[ask])
        sample = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
        self._template = self._template_of(sample, _OFFSET.pack(_MARKED_OFFSET))

    def answer(self, frame: memoryview, started_ns: int) -> Reply:
        if self._image is not self._broker.image:
            return None
        found = self._template.find_fetch(self._known, frame)
        if found is None:
            return None
        known, offset = found
        partition = known.partition
        if not partition.is_leader or known.leader_epoch not in (ANY_EPOCH, partition.leader_epoch):
            return None
        log = partition.log
        high_watermark = log.high_watermark
        records: Buffer | FileRange | None = None
        if not self._unsent.is_full or not self._unsent.look_if_full():
            records = log.read_warm(offset, known.max_bytes, upper_offset=high_watermark)
        if records is None:
            try:
                records = log.read(offset, known.max_bytes, at_least_one_batch=True, upper_offset=high_watermark)
            except ApiError:
                # The handler will meet it again.
                return None
        if records is None or len(records) < known.min_bytes:
            return None
        assert self._metrics is not None
        size = len(records)
        counters = known.counters
        counters.total_fetch_requests += 1
        counters.bytes_out += size
        self._metrics.record(self.version, len(frame), self._perf_ns() - started_ns, None)
        stable, start, reply = log.last_stable_offset, log.start_offset, known.reply
        if size < COPIED_BELOW and not isinstance(records, FileRange):
            return reply.with_records(frame, high_watermark, stable, start, records)
        return [reply.before_records(frame, high_watermark, stable, start, size), records, reply.tail]

    def refuse(self, message: FetchRequest, request: Request, error: ApiError) -> FetchResponse:
        raise AssertionError("a fetch that cannot be answered is left to the handler")

    def learn(self, frame: memoryview, client_id: str | None, message: FetchRequest) -> None:
        if message.session_id != NO_SESSION or message.session_epoch != FINAL_EPOCH or client_id is None:
            return
        if len(frame) > MAX_KEY_BYTES:
            return
        if len(message.topics) != 1 or len(message.topics[0].partitions) != 1 or message.forgotten_topics_data:
            return
        topic, ask = message.topics[0], message.topics[0].partitions[0]
        is_follower = message.replica_id >= 0 or message.replica_state is not None
        if is_follower or message.isolation_level == READ_COMMITTED or ask.last_fetched_epoch >= 0:
            return
        self._forget_if_outdated()
        end = self._template.end_of_prefix(frame)
        prefix, suffix = frame[AFTER_CORRELATION_ID:end].tobytes(), frame[end + _OFFSET_SIZE :].tobytes()
        is_known = prefix + suffix in self._known
        partition = None if is_known else self._partition(topic.topic, topic.topic_id, ask.partition)
        if partition is None:
            return
        # With another offset, to see that it lies where it will be read.
        offset, ask.fetch_offset = ask.fetch_offset, _MARKED_OFFSET
        encoded = self._encoded(message, client_id)[AFTER_CORRELATION_ID:]
        ask.fetch_offset = offset
        if encoded == prefix + _OFFSET.pack(_MARKED_OFFSET) + suffix:
            self._remember(prefix + suffix, self._known_by(partition, message, topic, ask))

    def _known_by(
        self, partition: Partition, message: FetchRequest, topic: FetchTopic, ask: FetchPartition
    ) -> KnownFetch:
        high_watermark, last_stable_offset, start_offset = _MARKED_OFFSETS
        data = PartitionData(
            partition_index=ask.partition,
            high_watermark=high_watermark,
            last_stable_offset=last_stable_offset,
            log_start_offset=start_offset,
            aborted_transactions=None,
            records=_RECORDS,
        )
        answered = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])
        before, rest = self._encoded_response(FetchResponse(responses=[answered])).split(
            _OFFSETS.pack(*_MARKED_OFFSETS)
        )
        after, tail = rest.split(self._size_field(len(_RECORDS)) + _RECORDS)
        max_bytes = min(message.max_bytes, self._broker.settings.max_fetch_bytes)
        return KnownFetch(
            partition=partition,
            counters=self._broker.metrics.topic(partition.topic),
            leader_epoch=ask.current_leader_epoch,
            min_bytes=min(message.min_bytes, max_bytes),
            max_bytes=min(ask.partition_max_bytes, max_bytes),
            reply=ResponseTemplate(before, after, tail, self._is_flexible),
        )
