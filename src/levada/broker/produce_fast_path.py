"""Produce requests with one batch for one partition, from clients that have sent such a one before."""

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
from levada.broker.handlers.produce import ALL, BY_ID_SINCE, LEADER, refused
from levada.broker.metrics import ApisCalled, TopicMetrics
from levada.broker.partition import Partition
from levada.broker.request_templates import CachePrefetch, ResponseTemplate
from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.net.reply import Reply
from levada.protocol.api import ApiKey
from levada.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from levada.records.record import NO_TIMESTAMP
from levada.storage.segment import Segment
from levada.storage.validation import TakesLong

_RECORDS: Final = bytes(range(0x80, 0xC0))
_OFFSETS: Final = Packed(">qqq")
_MARKED_OFFSETS: Final = (-0x0123456789ABCDEF, -0x1123456789ABCDEF, -0x2123456789ABCDEF)


@dataclass(slots=True)
class KnownProduce:
    """What a prefix stands for."""

    partition: Partition
    counters: TopicMetrics
    wants_all_in_sync: bool
    reply: ResponseTemplate
    """Of records that were appended, around base offset, time and log start."""
    segment: Segment
    cache: CachePrefetch
    """Of what is needed to append to that segment."""


class ProduceFastPath(FastPath[ProduceRequest, ProduceResponse, KnownProduce]):
    """Does what the handler does for records that are taken, and makes nothing on the way that is not needed."""

    api = ApiKey.PRODUCE
    versions = range(7, 14)
    """All of them allow Zstandard, and their replies tell where the log starts."""

    def __init__(self, broker: Broker, apis: ApisCalled, version: int) -> None:
        super().__init__(broker, apis, version)
        name, topic_id = sample_topic(goes_by_name=version < BY_ID_SINCE)
        sample = _request(name, topic_id, 0, LEADER, 0)
        self._sized_sample = self._size_field(len(_RECORDS)) + _RECORDS
        self._tail = self._encoded(sample, "").partition(_RECORDS)[2]
        self._template = self._template_of(sample, self._sized_sample, self._tail)

    def answer(self, frame: memoryview, started_ns: int) -> Reply:
        if self._image is not self._broker.image:
            return None
        found = self._template.find_produce(self._known, frame)
        if found is None:
            return None
        known, start, stop = found
        known.cache.prefetch()
        partition = known.partition
        log = partition.log
        if not partition.is_leader or log.may_wait_for_flush:
            return None
        now_ms = self._now_ms()
        if known.wants_all_in_sync:
            partition.refuse_if_too_few_in_sync()
        records = frame[start:stop]
        stamp, counters = NO_TIMESTAMP, known.counters
        appended = partition.append_plain(records, now_ms)
        if appended is not None:
            base_offset, count = appended
        else:
            try:
                base_offset, count = self._append(partition, records, now_ms)
            except TakesLong:
                # The handler opens it elsewhere.
                return None
            if log.config.uses_log_append_time:
                stamp = now_ms
        counters.total_produce_requests += 1
        if count:
            counters.messages_in += count
            counters.bytes_in += stop - start
        if log.active is not known.segment:
            known.segment, known.cache = log.active, _cache_of(partition, known.reply)
        reply = known.reply.with_offsets(frame, base_offset, stamp, log.start_offset)
        assert self._metrics is not None
        self._metrics.record(self.version, len(frame), self._perf_ns() - started_ns, None)
        return reply

    def _append(self, partition: Partition, records: memoryview, now_ms: int) -> tuple[int, int]:
        """The offset of the first record and how many are new: none of a batch that came before."""
        appended = partition.append(records, allows_zstd=True, now_ms=now_ms)
        count = appended.last_offset - appended.base_offset + 1
        return appended.base_offset, 0 if appended.is_duplicate else count

    def refuse(self, message: ProduceRequest, request: Request, error: ApiError) -> ProduceResponse:
        (topic,) = message.topic_data
        (data,) = topic.partition_data
        partition = self._broker.partition(topic.name, topic.topic_id, data.index)
        return _response(topic, refused(error, partition, topic, data, request))

    def learn(self, frame: memoryview, client_id: str | None, message: ProduceRequest) -> None:
        if message.acks not in (LEADER, ALL) or message.transactional_id is not None or client_id is None:
            return
        if len(message.topic_data) != 1 or len(message.topic_data[0].partition_data) != 1:
            return
        end = self._template.end_of_prefix(frame)
        if end > MAX_KEY_BYTES:
            return
        self._forget_if_outdated()
        prefix = frame[AFTER_CORRELATION_ID:end].tobytes()
        topic, index = message.topic_data[0], message.topic_data[0].partition_data[0].index
        partition = None if prefix in self._known else self._partition(topic.name, topic.topic_id, index)
        if partition is None:
            return
        same = _request(topic.name, topic.topic_id, index, message.acks, message.timeout_ms)
        if self._encoded(same, client_id)[AFTER_CORRELATION_ID:] == prefix + self._sized_sample + self._tail:
            self._remember(prefix, self._known_by(partition, topic, index, wants_all=message.acks == ALL))

    def _known_by(self, partition: Partition, topic: TopicProduceData, index: int, *, wants_all: bool) -> KnownProduce:
        base_offset, append_time_ms, start_offset = _MARKED_OFFSETS
        answer = PartitionProduceResponse(
            index=index, base_offset=base_offset, log_append_time_ms=append_time_ms, log_start_offset=start_offset
        )
        encoded = self._encoded_response(_response(topic, answer))
        before, after = encoded.split(_OFFSETS.pack(*_MARKED_OFFSETS))
        reply = ResponseTemplate(before, after, b"", self._is_flexible)
        return KnownProduce(
            partition=partition,
            counters=self._broker.metrics.topic(partition.topic),
            wants_all_in_sync=wants_all,
            reply=reply,
            segment=partition.log.active,
            cache=_cache_of(partition, reply),
        )


def _cache_of(partition: Partition, reply: ResponseTemplate) -> CachePrefetch:
    log = partition.log
    return CachePrefetch(partition, log, log.active, log.epochs, log.producers, reply)


def _request(name: str, topic_id: bytes, index: int, acks: int, timeout_ms: int) -> ProduceRequest:
    data = PartitionProduceData(index=index, records=_RECORDS)
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[topic])


def _response(topic: TopicProduceData, answer: PartitionProduceResponse) -> ProduceResponse:
    answered = TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=[answer])
    return ProduceResponse(responses=[answered])
