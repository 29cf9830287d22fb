"""The requests a raw benchmark sends, encoded once, and where in them the few numbers lie that change."""

import os
from dataclasses import dataclass
from struct import Struct
from typing import Any

from levada.protocol.api import ApiKey
from levada.protocol.codec import decode, encode_bytes
from levada.protocol.headers import decode_response_header, encode_request_header, encode_response_header
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from levada.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from levada.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from levada.records import build_batch

TOPIC = "benchmark"
CLIENT_ID = "benchmark"
PRODUCE_VERSION = FETCH_VERSION = 12
CREATE_TOPICS_VERSION = 7
TIMESTAMP_MS = 1_700_000_000_000

CORRELATION_AT = 8
"""In a request with its size; in a response with its size it lies at 4."""

INT32, INT64 = Struct(">i"), Struct(">q")
_MARK_64, _MARK_32 = 0x0102030405060708, 0x0A0B0C0D


@dataclass(frozen=True, slots=True)
class Template:
    """A request with its size in front."""

    frame: bytes
    offset_at: int | None
    """The int64 of the offset to fetch from; a produce request has none."""
    partition_at: int

    @property
    def size(self) -> int:
        return len(self.frame)

    def numbered(self, correlation_id: int, *, offset: int = 0, partition: int = 0) -> bytes:
        frame = bytearray(self.frame)
        self.patch(frame, correlation_id, offset, partition)
        return bytes(frame)

    def patch(self, frame: bytearray, correlation_id: int, offset: int, partition: int) -> None:
        INT32.pack_into(frame, CORRELATION_AT, correlation_id)
        INT32.pack_into(frame, self.partition_at, partition)
        if self.offset_at is not None:
            INT64.pack_into(frame, self.offset_at, offset)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a sink must know of the requests and responses of one size of batch."""

    topic: str
    batch: bytes
    produce: Template
    fetch: Template
    records_at: int
    produce_reply: bytes
    base_offset_at: int
    fetch_head: bytes
    fetch_tail: bytes

    def arguments(self) -> list[str]:
        """As both sinks take them on their command line."""
        return [
            str(self.records_at),
            self.produce_reply.hex(),
            str(self.base_offset_at),
            str(self.fetch.offset_at),
            self.fetch_head.hex(),
            self.fetch_tail.hex(),
            str(len(self.batch)),
        ]


def layout(batch_bytes: int, topic: str = TOPIC) -> Layout:
    """One record in a batch of about so many bytes, so that offset N lies N batches into the log."""
    batch = build_batch([(TIMESTAMP_MS, None, os.urandom(batch_bytes - 75), ())])
    produce = produce_template(batch, topic)
    header = encode_response_header(0, has_tags=True)
    reply = _with_size(header + encode_bytes(_produce_response(topic), PRODUCE_VERSION))
    answer = _with_size(header + encode_bytes(_fetch_response(batch, topic), FETCH_VERSION))
    head, tail = answer.split(batch)
    return Layout(
        topic=topic,
        batch=batch,
        produce=produce,
        fetch=fetch_template(len(batch), topic),
        records_at=produce.frame.index(batch),
        produce_reply=reply,
        base_offset_at=reply.index(INT64.pack(_MARK_64)),
        fetch_head=head,
        fetch_tail=tail,
    )


def produce_template(batch: bytes, topic: str) -> Template:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=_MARK_32, records=batch)])
    frame = request_frame(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=[data]), PRODUCE_VERSION)
    return Template(frame, offset_at=None, partition_at=frame.index(INT32.pack(_MARK_32)))


def fetch_template(max_bytes: int, topic: str) -> Template:
    partition = FetchPartition(partition=_MARK_32, fetch_offset=_MARK_64, partition_max_bytes=max_bytes)
    wanted = [FetchTopic(topic=topic, partitions=[partition])]
    frame = request_frame(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=max_bytes, topics=wanted), FETCH_VERSION)
    offset_at, partition_at = frame.index(INT64.pack(_MARK_64)), frame.index(INT32.pack(_MARK_32))
    return Template(frame, offset_at=offset_at, partition_at=partition_at)


def create_topic_frame(partitions: int, topic: str = TOPIC) -> bytes:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
    return request_frame(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), CREATE_TOPICS_VERSION)


def request_frame(message: Any, version: int) -> bytes:
    header = encode_request_header(message.api_key, version, 0, CLIENT_ID)
    return _with_size(header + encode_bytes(message, version))


def produced_offset(reply: bytes) -> int:
    """The base offset in a reply to a produce request, which must be a good one."""
    response = _decoded(ApiKey.PRODUCE, ProduceResponse, PRODUCE_VERSION, reply)
    partition = response.responses[0].partition_responses[0]
    assert partition.error_code == 0, f"produce failed: {partition}"
    return int(partition.base_offset)


def fetched_records(reply: bytes) -> bytes:
    """The records in a reply to a fetch request, which must be a good one."""
    response = _decoded(ApiKey.FETCH, FetchResponse, FETCH_VERSION, reply)
    assert response.error_code == 0, f"fetch failed: {response.error_code}"
    partition = response.responses[0].partitions[0]
    assert partition.error_code == 0, f"fetch failed: {partition.error_code}"
    return bytes(partition.records)


def check_created(reply: bytes) -> None:
    response = _decoded(ApiKey.CREATE_TOPICS, CreateTopicsResponse, CREATE_TOPICS_VERSION, reply)
    assert response.topics[0].error_code == 0, f"create failed: {response.topics[0].error_message}"


def _decoded(api_key: ApiKey, cls: type[Any], version: int, reply: bytes) -> Any:
    _, position = decode_response_header(reply, has_tags=True)
    return decode(cls, version, memoryview(reply)[position:])


def _produce_response(topic: str) -> ProduceResponse:
    partition = PartitionProduceResponse(index=0, base_offset=_MARK_64, log_start_offset=0)
    return ProduceResponse(responses=[TopicProduceResponse(name=topic, partition_responses=[partition])])


def _fetch_response(batch: bytes, topic: str) -> FetchResponse:
    partition = PartitionData(
        partition_index=0, high_watermark=0, last_stable_offset=0, aborted_transactions=None, records=batch
    )
    return FetchResponse(responses=[FetchableTopicResponse(topic=topic, partitions=[partition])])


def _with_size(body: bytes) -> bytes:
    return INT32.pack(len(body)) + body
