"""The readers against a real broker, called as Spark calls them: what tasks read, and what if data is lost."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable

from levada import Admin, Producer
from levada.client.admin import NewTopic as TopicToMake
from levada.client.types import TopicPartition
from levada.spark.options import OptionError
from levada.spark.source import reading
from levada.spark.source.batch import TopicReader
from levada.spark.source.loss import DataLoss
from levada.spark.source.ranges import OffsetRange, SmallRanges
from levada.spark.source.reading import NoAnswer
from levada.spark.source.schema import schema_for
from levada.spark.source.stream import TopicStreamReader
from tests.brokers import BrokerProcess
from tests.spark.sourcing import committed, numbered, send

NewTopic = Callable[..., str]
Offset = dict[str, Any]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def options(bootstrap: str, topic: str, **others: object) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": topic} | {k: str(v) for k, v in others.items()}


def read(reader: TopicReader | TopicStreamReader, ranges: Any) -> list[pa.RecordBatch]:
    return [batch for each in ranges for batch in reader.read(each)]


def read_batch(bootstrap: str, topic: str, **others: object) -> list[pa.RecordBatch]:
    reader = TopicReader(options(bootstrap, topic, **others))
    return read(reader, reader.partitions())


def values(batches: list[pa.RecordBatch]) -> list[bytes]:
    return sorted(value for batch in batches for value in batch.column("value").to_pylist())


@contextmanager
def streaming(bootstrap: str, topic: str, **others: object) -> Iterator[TopicStreamReader]:
    reader = TopicStreamReader(options(bootstrap, topic, **others))
    try:
        yield reader
    finally:
        reader.stop()


def advance(reader: TopicStreamReader, start: Offset) -> tuple[Offset, list[bytes]]:
    """One micro-batch as Spark runs it: through JSON, as the checkpoint does."""
    end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    return end, values(read(reader, reader.partitions(start, end)))


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_is_read_in_batches_of_sparks_types(bootstrap: str, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic()
    sent = list(numbered(25_000))
    # So large that a batch of the producer's has more records than one for Spark.
    with Producer(bootstrap, compression_type=codec, batch_size=1_000_000) as producer:
        producer.send_many(topic, sent).result()
    batches = read_batch(bootstrap, topic, includeHeaders="true")
    assert values(batches) == sent
    assert all(batch.num_rows <= reading.ROWS_PER_BATCH for batch in batches)
    expected = to_arrow_schema(schema_for({"includeHeaders": "true"}), timezone="UTC")
    assert all(batch.schema.equals(expected) for batch in batches)


def test_records_of_megabytes_and_none_are_read(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"max.message.bytes": "10000000"})
    large = b"x" * 5_000_000
    with Producer(bootstrap, max_request_size=10_000_000) as producer:
        for value in (b"", large, None, b"last"):
            producer.send(topic, value)
    found = [value for batch in read_batch(bootstrap, topic) for value in batch.column("value").to_pylist()]
    assert found == [b"", large, None, b"last"]


def test_aborted_records_and_markers_are_passed_without_waiting(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"kept")
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
    began = time.monotonic()
    assert values(read_batch(bootstrap, topic)) == [b"kept"]
    only_aborted = json.dumps({topic: {"0": 2}})
    assert values(read_batch(bootstrap, topic, startingOffsets=only_aborted)) == []
    assert time.monotonic() - began < reading.PATIENCE_SECONDS
    uncommitted = {"kafka.isolation.level": "read_uncommitted"}
    assert values(read_batch(bootstrap, topic, **uncommitted)) == [b"aborted", b"kept"]


def test_a_transaction_that_is_open_is_read_when_it_is_committed(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with (
        Producer(bootstrap, transactional_id=f"tx-{topic}") as producer,
        streaming(bootstrap, topic, startingOffsets="earliest") as reader,
    ):
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open")
        producer.flush()
        end, found = advance(reader, reader.initialOffset())
        assert found == []
        assert end[topic] == {"0": 0}
        producer.commit_transaction()
        end, found = advance(reader, end)
        assert (end[topic], found) == ({"0": 2}, [b"open"])


def test_a_topic_is_read_from_where_its_log_begins(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(100))
    with Admin(bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 95}).raise_any()
    reader = TopicReader(options(bootstrap, topic))
    (whole,) = reader.partitions()
    assert isinstance(whole, OffsetRange)
    assert (whole.start, whole.end) == (95, 100)
    assert values(read(reader, [whole])) == list(numbered(5, first=95))


def test_what_brokers_delete_while_a_task_reads_fails_it_or_is_warned_of(
    bootstrap: str, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(10))
    planned = OffsetRange(topic, 0, 0, 10)
    with Admin(bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 4}).raise_any()
    with pytest.raises(DataLoss, match=f"offsets 0 to 3 of {topic}-0 are deleted; it begins at offset 4"):
        read(TopicReader(options(bootstrap, topic)), [planned])
    tolerant = TopicReader(options(bootstrap, topic, failOnDataLoss="false"))
    assert values(read(tolerant, [planned])) == list(numbered(6, first=4))
    assert "are deleted" in caplog.text


def test_a_topic_that_goes_away_while_a_task_reads_fails_it_or_ends_it(
    bootstrap: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(3))
    monkeypatch.setattr(reading, "PATIENCE_SECONDS", 0.2)
    with Admin(bootstrap) as admin:
        admin.delete_topics([topic]).raise_any()
    planned = OffsetRange(topic, 0, 0, 3)
    with pytest.raises(DataLoss, match=f"{topic}-0 is gone"):
        read(TopicReader(options(bootstrap, topic)), [planned])
    assert read(TopicReader(options(bootstrap, topic, failOnDataLoss="false")), [planned]) == []


def test_a_range_that_ends_behind_the_log_does_not_wait_for_ever(
    bootstrap: str, new_topic: NewTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(3))
    monkeypatch.setattr(reading, "PATIENCE_SECONDS", 0.2)
    planned = OffsetRange(topic, 0, 1, 8)
    with pytest.raises(DataLoss, match=f"{topic}-0 has no offset 7; it ends at offset 3"):
        read(TopicReader(options(bootstrap, topic)), [planned])
    tolerant = TopicReader(options(bootstrap, topic, failOnDataLoss="false"))
    assert values(read(tolerant, [planned])) == list(numbered(2, first=1))


def test_one_task_reads_the_small_ranges_of_several_partitions_and_no_more(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    with Producer(bootstrap, transactional_id=f"tx-{topic}") as producer:
        producer.init_transactions()
        with producer.transaction():
            for number in range(40):
                producer.send(topic, b"%d" % number, partition=number % 4)
        producer.begin_transaction()
        producer.send(topic, b"aborted", partition=3)
        producer.flush()
        producer.abort_transaction()
    with Admin(bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 2): 4}).raise_any()
    ranges = (
        OffsetRange(topic, 0, 2, 6),  # More is fetched than this.
        OffsetRange(topic, 1, 5, 10),
        OffsetRange(topic, 2, 0, 10),  # Begins before the log.
        OffsetRange(topic, 3, 9, 13),  # Ends with what was aborted.
    )
    with streaming(bootstrap, topic, startingOffsets="earliest", failOnDataLoss="false") as reader:
        began = time.monotonic()
        found = read(reader, [SmallRanges(ranges)])
        assert time.monotonic() - began < reading.PATIENCE_SECONDS
    offsets: dict[int, list[int]] = {}
    for batch in found:
        for partition, offset in zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist()):
            offsets.setdefault(partition, []).append(offset)
    assert offsets == {0: [2, 3, 4, 5], 1: [5, 6, 7, 8, 9], 2: [4, 5, 6, 7, 8, 9], 3: [9]}
    with streaming(bootstrap, topic) as reader, pytest.raises(DataLoss):
        read(reader, [SmallRanges(ranges)])


def test_a_query_whose_topic_was_made_again_fails_or_reads_the_new_one(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(3))
    with streaming(bootstrap, topic, startingOffsets="earliest") as reader:
        end, _ = advance(reader, reader.initialOffset())
    with Admin(bootstrap) as admin:
        admin.delete_topics([topic]).raise_any()
        admin.create_topics([TopicToMake(topic, 1)]).raise_any()
    # As many records as before: the offsets alone do not tell.
    send(bootstrap, topic, numbered(3, first=10))
    with streaming(bootstrap, topic) as reader, pytest.raises(DataLoss, match="was deleted and made again"):
        advance(reader, end)
    with streaming(bootstrap, topic, failOnDataLoss="false") as reader:
        end, found = advance(reader, end)
        assert found == list(numbered(3, first=10))
        assert advance(reader, end) == (end, [])


def test_a_topic_that_is_made_again_under_a_running_query_is_read_once(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(3))
    with streaming(bootstrap, topic, startingOffsets="earliest", failOnDataLoss="false") as reader:
        end, found = advance(reader, reader.initialOffset())
        # So that the query knows which partitions there are, as one does that has run for a while.
        assert advance(reader, end) == (end, [])
        with Admin(bootstrap) as admin:
            admin.delete_topics([topic]).raise_any()
            admin.create_topics([TopicToMake(topic, 1)]).raise_any()
            made_again = str(admin.describe_topics([topic])[topic].topic_id)
        for first in (3, 6):
            send(bootstrap, topic, numbered(3, first=first))
            end, more = advance(reader, end)
            found += more
        while end.get("~ids") != {topic: made_again} or len(found) < 9:
            end, more = advance(reader, end)
            found += more
        assert found == list(numbered(9))


def test_a_batch_that_is_repeated_has_nothing_of_a_topic_that_was_made_again(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(3))
    with streaming(bootstrap, topic, startingOffsets="earliest") as reader:
        start = reader.initialOffset()
        end, _ = advance(reader, start)
    with Admin(bootstrap) as admin:
        admin.delete_topics([topic]).raise_any()
        admin.create_topics([TopicToMake(topic, 1)]).raise_any()
    send(bootstrap, topic, numbered(4, first=10))
    with streaming(bootstrap, topic) as reader, pytest.raises(DataLoss, match="was deleted and made again"):
        reader.partitions(start, end)
    with streaming(bootstrap, topic, failOnDataLoss="false") as reader:
        assert reader.partitions(start, end) == []
        assert advance(reader, end)[1] == list(numbered(4, first=10))


def test_a_query_whose_topic_is_gone_fails_or_goes_on_with_the_others(bootstrap: str, new_topic: NewTopic) -> None:
    gone, stays = new_topic(), new_topic()
    both = f"{gone},{stays}"
    send(bootstrap, stays, numbered(3))
    with streaming(bootstrap, both, startingOffsets="earliest") as reader:
        end, _ = advance(reader, reader.initialOffset())
    with Admin(bootstrap) as admin:
        admin.delete_topics([gone]).raise_any()
    send(bootstrap, stays, numbered(3, first=3))
    with streaming(bootstrap, both) as reader, pytest.raises(DataLoss, match=f"{gone}-0, read up to offset 0, is gone"):
        advance(reader, end)
    with streaming(bootstrap, both, failOnDataLoss="false") as reader:
        assert advance(reader, end)[1] == list(numbered(3, first=3))


def test_a_query_behind_the_beginning_of_the_log_fails_or_skips(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(3))
    with streaming(bootstrap, topic, startingOffsets="earliest") as reader:
        end, _ = advance(reader, reader.initialOffset())
    send(bootstrap, topic, numbered(5, first=3))
    with Admin(bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, 0): 6}).raise_any()
    with (
        streaming(bootstrap, topic) as reader,
        pytest.raises(DataLoss, match=f"offsets 3 to 5 of {topic}-0 are deleted"),
    ):
        advance(reader, end)
    with streaming(bootstrap, topic, failOnDataLoss="false") as reader:
        assert advance(reader, end)[1] == list(numbered(2, first=6))


def test_a_stream_begins_where_its_options_say(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for number, value in enumerate(numbered(5)):
            producer.send(topic, value, timestamp_ms=1_000 + number)

    def first(**others: object) -> list[bytes]:
        with streaming(bootstrap, topic, **others) as reader:
            return advance(reader, reader.initialOffset())[1]

    cases: list[tuple[Mapping[str, object], int]] = [
        ({}, 5),
        ({"startingOffsets": "earliest"}, 0),
        ({"startingOffsets": json.dumps({topic: {"0": 3}})}, 3),
        ({"startingOffsets": json.dumps({topic: {"0": -1}})}, 5),
        ({"startingTimestamp": 1_002}, 2),
        ({"startingOffsetsByTimestamp": json.dumps({topic: {"0": 1_004}})}, 4),
        ({"startingTimestamp": 5_000, "startingOffsetsByTimestampStrategy": "latest"}, 5),
        ({"startingOffsets": json.dumps({topic: {"0": 77}}), "failOnDataLoss": "false"}, 5),
    ]
    for others, start in cases:
        assert first(**others) == list(numbered(5 - start, first=start)), others
    with pytest.raises(DataLoss, match="has no offset 77 to begin at; it has offsets 0 to 5"):
        first(startingOffsets=json.dumps({topic: {"0": 77}}))
    with pytest.raises(ValueError, match=f"no record of {topic}-0 is as young as the starting time 5000"):
        first(startingTimestamp=5_000)


def test_progress_is_committed_when_the_next_batch_is_asked_for(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(3))
    with streaming(bootstrap, topic, startingOffsets="earliest", groupIdPrefix=topic) as reader:
        end, _ = advance(reader, reader.initialOffset())
        group_id = end["~group"]
        assert committed(bootstrap, group_id) == {}, "nothing is done yet"
        advance(reader, end)
        assert committed(bootstrap, group_id) == {TopicPartition(topic, 0): 3}
    with streaming(bootstrap, topic, **{"kafka.group.id": f"{topic}-named"}) as reader:
        assert advance(reader, end)[0] == end
        assert committed(bootstrap, f"{topic}-named") == {TopicPartition(topic, 0): 3}


def test_an_idle_query_answers_slowly_and_wakes_for_records(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with streaming(bootstrap, topic) as reader:
        end, _ = advance(reader, reader.initialOffset())
        began = time.monotonic()
        assert advance(reader, end) == (end, [])
        assert time.monotonic() - began >= 0.15
        # An answer that waited is not late for what comes in the meantime.
        sender = threading.Timer(0.05, send, (bootstrap, topic, numbered(1)))
        sender.start()
        found: list[bytes] = []
        while not found:
            end, found = advance(reader, end)
        sender.join()
        assert found == list(numbered(1))
        assert reader.reportLatestOffset() == {topic: {"0": 1}}


def test_a_pattern_that_matches_nothing_yet_waits_for_topics(bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic() + "-missing"
    reader = TopicStreamReader({"kafka.bootstrap.servers": bootstrap, "subscribePattern": name})
    try:
        end, found = advance(reader, reader.initialOffset())
        assert (set(end), found) == ({"~group"}, [])
        assert advance(reader, end) == (end, [])
        with Admin(bootstrap) as admin:
            admin.create_topics([TopicToMake(name, 1)]).raise_any()
        send(bootstrap, name, numbered(3))
        while not found:
            end, found = advance(reader, end)
    finally:
        reader.stop()
    assert found == list(numbered(3))


def test_partitions_that_are_not_there_are_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    reader = TopicReader({"kafka.bootstrap.servers": bootstrap, "assign": json.dumps({topic: [1, 2]})})
    with pytest.raises(OptionError, match=f"partition {topic}-2 is not there"):
        reader.partitions()


def test_a_batch_cannot_end_before_it_begins(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(5))
    bounds = {"startingOffsets": json.dumps({topic: {"0": 4}}), "endingOffsets": json.dumps({topic: {"0": 2}})}
    with pytest.raises(OptionError, match=f"{topic}-0 would be read from offset 4 to 2"):
        read_batch(bootstrap, topic, **bounds)


def test_a_trigger_without_limits_ignores_those_of_the_options(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(10))
    limits = {"maxOffsetsPerTrigger": 5, "minOffsetsPerTrigger": 5}
    with streaming(bootstrap, topic, startingOffsets="earliest", **limits) as reader:
        end, found = advance(reader, reader.initialOffset())
        assert (end[topic], found) == ({"0": 5}, list(numbered(5)))
        end, found = advance(reader, end)
        assert (end[topic], found) == ({"0": 10}, list(numbered(5, first=5)))
        send(bootstrap, topic, numbered(1, first=10))
        assert advance(reader, end) == (end, []), "one record is too little"
        assert reader.latestOffset(end, ReadAllAvailable())[topic] == {"0": 11}
        assert reader.latestOffset(reader.initialOffset(), ReadAllAvailable())[topic] == {"0": 11}


def test_a_broker_that_goes_away_and_returns_is_waited_for(own_broker: BrokerProcess) -> None:
    bootstrap, topic = own_broker.bootstrap, "orders"
    with Admin(bootstrap) as admin:
        admin.create_topics([TopicToMake(topic, 1)]).raise_any()
    send(bootstrap, topic, numbered(3))
    with streaming(bootstrap, topic, startingOffsets="earliest") as reader:
        end, found = advance(reader, reader.initialOffset())
        assert found == list(numbered(3))
        send(bootstrap, topic, numbered(3, first=3))
        own_broker.kill()
        restart = threading.Timer(3.0, own_broker.start)
        restart.start()
        end, found = advance(reader, end)
        restart.join()
        assert found == list(numbered(3, first=3))
        own_broker.kill()
        restart = threading.Timer(2.0, own_broker.start)
        restart.start()
        # The driver has planned it, and the task finds no broker.
        assert values(read(reader, [OffsetRange(topic, 0, 0, 6)])) == list(numbered(6))
        restart.join()


def test_a_task_whose_broker_stays_away_says_so(own_broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    bootstrap = own_broker.bootstrap
    monkeypatch.setattr(reading, "PATIENCE_SECONDS", 0.5)
    with Admin(bootstrap) as admin:
        admin.create_topics([TopicToMake("orders", 1)]).raise_any()
    send(bootstrap, "orders", numbered(3))
    patience = {
        "kafkaConsumer.pollTimeoutMs": 300,
        "kafka.default.api.timeout.ms": 300,
        "kafka.request.timeout.ms": 200,
    }
    reader = TopicReader(options(bootstrap, "orders", **patience))
    own_broker.kill()
    with pytest.raises(NoAnswer, match="no record of orders-0 from offset 0 came within 300 ms"):
        read(reader, [OffsetRange("orders", 0, 0, 3)])
