"""Cases that write records: producer ids, produce requests of every broken kind, and deletion from the front."""

from collections.abc import Callable

from crc32c import crc32c

from levada.protocol.api import ApiKey
from levada.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.init_producer_id import InitProducerIdRequest
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest
from levada.records import Codec, build_batch
from levada.records.batch import CRC_START
from tests.interop.differential.cases import EVERY, UNKNOWN_ID, Case, Side, Table, each, since
from tests.interop.differential.requests import NOW_MS, batch, create, new_topic, produce

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def _init(
    producer_id: int = -1, producer_epoch: int = -1, timeout_ms: int = 60_000, transactional_id: str | None = None
) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


INIT_PRODUCER_ID = Table(
    "InitProducerId",
    ApiKey.INIT_PRODUCER_ID,
    [
        Case("idempotent", lambda _: _init(), versions=EVERY),
        Case("without a timeout", lambda _: _init(timeout_ms=0)),
        Case("with a negative timeout", lambda _: _init(timeout_ms=-1)),
        Case("again, with id and epoch", lambda side: _init(side.producer_id, 0), versions=since(3)),
        Case("again, with id and a higher epoch", lambda side: _init(side.producer_id, 9), versions=since(3)),
        Case("with an unknown id", lambda _: _init(987_654_321, 3), versions=since(3)),
        Case("with an id, but no epoch", lambda side: _init(side.producer_id, -1), versions=since(3)),
        Case("with an epoch, but no id", lambda _: _init(-1, 3), versions=since(3)),
        Case("with a negative id", lambda _: _init(-7, 3), versions=since(3)),
        Case("without a name for transactions", lambda _: _init(transactional_id="")),
    ],
)

PLAIN, KEYED, STAMPED, ZIPPED, SMALL, RECENT, TWO_NEEDED, TWICE = (
    "put-plain", "put-keyed", "put-stamped", "put-zipped", "put-small", "put-recent", "put-two-needed", "put-twice",
)  # fmt: skip


def _patched(data: bytes, at: int, value: bytes, *, is_checked: bool = True) -> bytes:
    """A batch with some bytes overwritten, and its checksum put right unless told otherwise."""
    changed = bytearray(data)
    changed[at : at + len(value)] = value
    if is_checked:
        changed[17:CRC_START] = crc32c(changed[CRC_START:]).to_bytes(4)
    return bytes(changed)


ONE = batch(b"one")
THREE = batch(b"one", b"two", b"three")
BIG = batch(b"x" * 200_000)
OLD_FORMAT = _patched(THREE, 16, b"\x01", is_checked=False)

_BROKEN: dict[str, bytes] = {
    "empty": b"",
    "one byte": b"\x00",
    "a part of a header": ONE[:30],
    "a batch without its end": ONE[:-1],
    "two batches": ONE + THREE,
    "wrong checksum": _patched(ONE, 17, b"\x00\x00\x00\x00", is_checked=False),
    "format 0": _patched(THREE, 16, b"\x00", is_checked=False),
    "format 1": OLD_FORMAT,
    "format 3": _patched(THREE, 16, b"\x03", is_checked=False),
    "control batch": build_batch([(NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0", ())], is_control=True),
    "no records": build_batch([]),
    "base offset 5": batch(b"one", base_offset=5),
    "last offset too high": _patched(THREE, 23, (7).to_bytes(4)),
    "last offset too low": _patched(THREE, 23, (1).to_bytes(4)),
    "count too high": _patched(THREE, 57, (5).to_bytes(4)),
    "count too low": _patched(THREE, 57, (1).to_bytes(4)),
    "count negative": _patched(THREE, 57, (-1).to_bytes(4, signed=True)),
    "gap between offsets": build_batch([(NOW_MS, b"k", b"v", ())] * 2, offset_deltas=[0, 5]),
    "length 0": _patched(ONE, 8, (0).to_bytes(4), is_checked=False),
    "length negative": _patched(ONE, 8, (-1).to_bytes(4, signed=True), is_checked=False),
    "length too low": _patched(ONE, 8, (20).to_bytes(4), is_checked=False),
    "codec 5": _patched(ONE, 21, (5).to_bytes(2)),
    "codec 7": _patched(ONE, 21, (7).to_bytes(2)),
    "records cut off": _patched(ONE, 61, b"\x7e"),
    "stamped by the producer": build_batch([(NOW_MS, b"k", b"v", ())], log_append_time_ms=NOW_MS),
    "maximal time wrong": batch(b"one", max_timestamp=NOW_MS - DAY_MS),
    "no time": batch(b"one", first_ms=-1),
    "negative time": batch(b"one", first_ms=-2),
    "transactional without a producer": build_batch([(NOW_MS, b"k", b"v", ())], is_transactional=True),
    "producer without a sequence": batch(b"one", producer_id=5, producer_epoch=0),
}


_ODD: dict[str, bytes] = {
    "a batch and a byte": ONE + b"\x00",
    "gzip that is none": _patched(ONE, 21, (1).to_bytes(2)),
    "zstd that is none": _patched(ONE, 21, (4).to_bytes(2)),
    "too old inside, compressed": build_batch(
        [(NOW_MS, b"k", b"fits", ()), (NOW_MS - DAY_MS, b"k", b"does not", ())], codec=Codec.LZ4
    ),
}
"""Each with a topic to itself, because one of the brokers may take it."""


_OLD_CODECS = {codec.name: codec for codec in Codec if codec is not Codec.ZSTD}


def _odd_topic(what: str) -> str:
    return "put-odd-" + "".join(letter for letter in what if letter.isalpha())


def _sequenced(sequence: int, epoch: int = 0, count: int = 1) -> Callable[[Side], ProduceRequest]:
    """Records of the producer whose id was given last."""

    def build(side: Side) -> ProduceRequest:
        values = [b"value"] * count
        records = batch(*values, producer_id=side.producer_id, producer_epoch=epoch, base_sequence=sequence)
        return produce(side, PLAIN, records, partition=1)

    return build


_SEQUENCES: dict[str, Callable[[Side], ProduceRequest]] = {
    "first": _sequenced(0),
    "second": _sequenced(1, count=2),
    "first once more": _sequenced(0),
    "second once more": _sequenced(1, count=2),
    "sequence skipped": _sequenced(9),
    "sequence overlaps": _sequenced(2),
    "next": _sequenced(3),
    "higher epoch, sequence above 0": _sequenced(4, epoch=2),
    "higher epoch": _sequenced(0, epoch=2),
    "lower epoch": _sequenced(4, epoch=1),
    "lower epoch from 0 on": _sequenced(0, epoch=0),
    "negative epoch": _sequenced(1, epoch=-1),
    **{f"batch {number} of six": _sequenced(number, epoch=2) for number in range(1, 7)},
    "batch 1 of six once more": _sequenced(1, epoch=2),
    "batch 2 of six once more": _sequenced(2, epoch=2),
}


def _read(side: Side, topic: str, partition: int = 0) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic_id=side.topic_id(topic), partitions=[wanted])]
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)


def _stored(topic: str, partition: int = 0) -> Case:
    return Case(
        f"{topic}-{partition}: stored", lambda side: _read(side, topic, partition), api=ApiKey.FETCH, versions=[17]
    )


def _to_two(side: Side, first: bytes, second: bytes) -> ProduceRequest:
    """Both partitions of a topic in one request."""
    request = produce(side, PLAIN, first)
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=second))
    return request


def _transactional(side: Side) -> ProduceRequest:
    request = produce(side, PLAIN, ONE)
    request.transactional_id = "absent"
    return request


def _twice(side: Side) -> ProduceRequest:
    """A partition twice in one request."""
    request = produce(side, TWICE, ONE)
    request.topic_data[0].partition_data *= 2
    return request


def _at(first_ms: int, topic: str = PLAIN, codec: Codec = Codec.NONE) -> Callable[[Side], ProduceRequest]:
    records = build_batch([(NOW_MS, b"k", b"fits", ()), (first_ms, b"k", b"value", ())], codec=codec)
    return lambda side: produce(side, topic, records)


PRODUCE = Table(
    "Produce",
    ApiKey.PRODUCE,
    [
        Case("one record", lambda side: produce(side, PLAIN, ONE), versions=EVERY),
        Case("acks 1", lambda side: produce(side, PLAIN, THREE, acks=1), versions=EVERY),
        Case("acks 0", lambda side: produce(side, PLAIN, ONE, acks=0), is_answered=False),
        Case(
            "acks 0 to an unknown partition", lambda s: produce(s, PLAIN, ONE, acks=0, partition=9), is_answered=False
        ),
        Case("acks 2", lambda side: produce(side, PLAIN, ONE, acks=2)),
        Case("acks -2", lambda side: produce(side, PLAIN, ONE, acks=-2)),
        Case("acks 2 to an unknown topic", lambda side: produce(side, "put-never", ONE, acks=2, topic_id=UNKNOWN_ID)),
        Case("unknown topic", lambda side: produce(side, "put-never", ONE, topic_id=UNKNOWN_ID), versions=EVERY),
        Case("illegal topic", lambda side: produce(side, "put/never", ONE), versions=[3, 12]),
        Case("topic without a name", lambda side: produce(side, "", ONE), versions=[3, 12]),
        Case("topic without an id", lambda side: produce(side, PLAIN, ONE, topic_id=bytes(16)), versions=since(13)),
        Case("unknown partition", lambda side: produce(side, PLAIN, ONE, partition=9), versions=EVERY),
        Case("negative partition", lambda side: produce(side, PLAIN, ONE, partition=-1)),
        Case("known and unknown partition", lambda side: _to_two(side, ONE, b"")),
        Case("a partition twice", _twice),
        Case("no topics", lambda _: ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=[])),
        Case("a name for transactions, but none is open", _transactional),
        *each(_BROKEN, lambda side, data: produce(side, PLAIN, data), prefix="broken: ", versions=[3, 9, 13]),
        *each(
            {what: what for what in _ODD},
            lambda side, what: produce(side, _odd_topic(what), _ODD[what]),
            prefix="odd: ",
        ),
        Case("null", lambda side: produce(side, PLAIN, None), versions=[13]),
        Case("zstd too early", lambda s: produce(s, PLAIN, batch(b"one", codec=Codec.ZSTD)), versions=range(3, 8)),
        *each(_OLD_CODECS, lambda side, codec: produce(side, PLAIN, batch(b"x" * 99, codec=codec)), prefix="codec "),
        _stored(PLAIN),
        Case("too large", lambda side: produce(side, SMALL, BIG), versions=[3, 8, 13]),
        Case("too large uncompressed", lambda side: produce(side, SMALL, batch(b"x" * 200_000, codec=Codec.GZIP))),
        Case("an hour ahead", _at(NOW_MS + 30 * 60_000)),
        Case("two hours ahead", _at(NOW_MS + 2 * HOUR_MS), versions=[3, 8, 13]),
        Case("two hours ahead, compressed", _at(NOW_MS + 2 * HOUR_MS, codec=Codec.GZIP), versions=[3, 8, 13]),
        Case("a day old", _at(NOW_MS - DAY_MS)),
        Case("a day too old", _at(NOW_MS - DAY_MS, RECENT), versions=[3, 8, 13]),
        Case("no time where it must be recent", _at(-1, RECENT)),
        _stored(RECENT),
        Case("without a key", lambda side: produce(side, KEYED, batch(b"a", b"b", key=None)), versions=EVERY),
        Case("without a key, compressed", lambda s: produce(s, KEYED, batch(b"a", b"b", key=None, codec=Codec.LZ4))),
        Case("with a key", lambda side: produce(side, KEYED, ONE)),
        _stored(KEYED),
        Case("stamped by the broker", lambda side: produce(side, STAMPED, THREE), versions=EVERY),
        Case("stamped, compressed", lambda side: produce(side, STAMPED, batch(b"one", b"two", codec=Codec.GZIP))),
        Case("stamped by both", lambda side: produce(side, STAMPED, _BROKEN["stamped by the producer"])),
        Case("stamped though far ahead", _at(NOW_MS + 2 * DAY_MS, STAMPED)),
        _stored(STAMPED),
        *each(
            _OLD_CODECS,
            lambda side, codec: produce(side, ZIPPED, batch(b"x" * 99, codec=codec)),
            prefix="recompressed ",
        ),
        Case("recompressed with a gap", lambda side: produce(side, ZIPPED, _BROKEN["gap between offsets"])),
        _stored(ZIPPED),
        Case("too few in sync, all wanted", lambda side: produce(side, TWO_NEEDED, ONE), versions=EVERY),
        Case("too few in sync, one wanted", lambda side: produce(side, TWO_NEEDED, ONE, acks=1)),
        Case("producer id", lambda _: _init(), api=ApiKey.INIT_PRODUCER_ID, versions=[4]),
        *each(_SEQUENCES, lambda side, build: build(side), prefix="sequence: ", versions=[13]),
        Case("another producer id", lambda _: _init(), api=ApiKey.INIT_PRODUCER_ID, versions=[4]),
        Case("sequence: first of another above 0", _sequenced(5), versions=[13]),
        Case("sequence: 0 afterwards", _sequenced(0), versions=[13]),
        Case("sequence: next of another", _sequenced(6), versions=[13]),
        Case(
            "unknown producer",
            lambda side: produce(
                side, PLAIN, batch(b"x", producer_id=77_777, producer_epoch=3, base_sequence=40), partition=1
            ),
        ),
        _stored(PLAIN, 1),
        Case(
            "internal topic", lambda _: create(new_topic("__transaction_state")), api=ApiKey.CREATE_TOPICS, versions=[7]
        ),
        Case("to an internal topic", lambda side: produce(side, "__transaction_state", ONE)),
    ],
    topics={
        PLAIN: {},
        KEYED: {"cleanup.policy": "compact"},
        STAMPED: {"message.timestamp.type": "LogAppendTime"},
        ZIPPED: {"compression.type": "gzip"},
        SMALL: {"max.message.bytes": "1000"},
        RECENT: {"message.timestamp.before.max.ms": str(HOUR_MS)},
        TWO_NEEDED: {"min.insync.replicas": "2"},
        TWICE: {},
        **{_odd_topic(what): {"message.timestamp.before.max.ms": str(HOUR_MS)} for what in _ODD},
    },
)


def delete_records(topic: str, *partitions: tuple[int, int]) -> DeleteRecordsRequest:
    wanted = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in partitions]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=wanted)], timeout_ms=10_000)


def _fill(topic: str, partition: int = 0) -> Case:
    return Case(
        f"filled: {topic}-{partition}",
        lambda side: produce(side, topic, THREE, partition=partition),
        api=ApiKey.PRODUCE,
        versions=[9, 10, 11, 12, 13],
    )


DELETE_RECORDS = Table(
    "DeleteRecords",
    ApiKey.DELETE_RECORDS,
    [
        _fill("cut"),
        _fill("cut-compacted"),
        _fill("cut-both"),
        Case("from 0", lambda _: delete_records("cut", (0, 0)), versions=EVERY),
        Case("to 4", lambda _: delete_records("cut", (0, 4)), versions=EVERY),
        Case("to what is gone", lambda _: delete_records("cut", (0, 2))),
        Case("beyond the high watermark", lambda _: delete_records("cut", (0, 16))),
        Case("-2", lambda _: delete_records("cut", (0, -2))),
        Case("of an empty partition", lambda _: delete_records("cut", (1, 0))),
        Case("of an empty partition to 1", lambda _: delete_records("cut", (1, 1))),
        Case("all of an empty partition", lambda _: delete_records("cut", (1, -1))),
        Case("of two partitions", lambda _: delete_records("cut", (0, 5), (1, 0))),
        Case("of a partition twice", lambda _: delete_records("cut", (0, 6), (0, 7))),
        Case("of a partition twice, downwards", lambda _: delete_records("cut", (0, 9), (0, 8))),
        Case("unknown partition", lambda _: delete_records("cut", (9, 0))),
        Case("known and unknown partition", lambda _: delete_records("cut", (9, 0), (0, 8))),
        Case("negative partition", lambda _: delete_records("cut", (-1, 0))),
        Case("unknown topic", lambda _: delete_records("cut-never", (0, 0))),
        Case("illegal topic", lambda _: delete_records("cut/never", (0, 0))),
        Case("compacted", lambda _: delete_records("cut-compacted", (0, 1))),
        Case("compacted and deleted", lambda _: delete_records("cut-both", (0, 1))),
        Case("internal topic that is not there", lambda _: delete_records("__consumer_offsets", (0, 0))),
        Case("no partitions", lambda _: delete_records("cut")),
        Case("nothing", lambda _: DeleteRecordsRequest(topics=[], timeout_ms=1_000)),
        Case("all", lambda _: delete_records("cut", (0, -1))),
        Case("all once more", lambda _: delete_records("cut", (0, -1))),
        _stored("cut-both"),
    ],
    topics={
        "cut": {},
        "cut-compacted": {"cleanup.policy": "compact"},
        "cut-both": {"cleanup.policy": "compact,delete"},
    },
)
