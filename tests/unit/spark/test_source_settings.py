"""The options of the source: what each means, and one line for what cannot be."""

import re

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

from levada.client.types import TopicPartition
from levada.spark.options import OptionError
from levada.spark.source.bounds import EARLIEST, LATEST, AtOffsets, AtPlace, AtTime, AtTimes, check_covers, questions
from levada.spark.source.settings import Names, Partitions, Pattern, batch_settings, includes_headers, stream_settings
from levada.spark.source.stream import TopicStreamReader

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}
NO_SELECTION = {"kafka.bootstrap.servers": "localhost:9092"}
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_stream_begins_at_the_end_and_a_batch_takes_everything() -> None:
    assert stream_settings(BASE).read.start == AtPlace(LATEST)
    batch = batch_settings(BASE)
    assert (batch.read.start, batch.end) == (AtPlace(EARLIEST), AtPlace(LATEST))


def test_defaults_are_safe() -> None:
    read = batch_settings(BASE).read
    assert read.fails_on_data_loss
    assert read.is_committed_only
    assert not read.includes_headers
    assert (read.min_partitions, read.max_records_per_partition) == (None, None)
    stream = stream_settings(BASE)
    assert (stream.group_id, stream.group_id_prefix) == (None, "levada-spark")
    assert stream.max_trigger_delay_ms == 15 * 60_000


def test_names_of_options_have_no_case() -> None:
    given = {
        "KAFKA.bootstrap.servers": "h:1",
        "SUBSCRIBE": "a",
        "STARTINGOFFSETS": "Earliest",
        "includeheaders": "TRUE",
    }
    settings = stream_settings(given)
    assert settings.read.start == AtPlace(EARLIEST)
    assert settings.read.includes_headers
    assert includes_headers(given)


def test_client_settings_go_to_the_client_without_their_prefix() -> None:
    read = batch_settings({**BASE, "kafka.isolation.level": "read_uncommitted", "kafka.fetch.max.bytes": "1000"}).read
    assert read.client["fetch.max.bytes"] == "1000"
    assert not read.is_committed_only


def test_what_is_read_is_named_in_one_of_three_ways() -> None:
    assert batch_settings({**NO_SELECTION, "subscribe": " a,b ,"}).read.selection == Names(frozenset({"a", "b"}))
    assert batch_settings({**NO_SELECTION, "subscribePattern": "a.*"}).read.selection == Pattern(
        re.compile("a.*", re.ASCII)
    )
    assigned = batch_settings({**NO_SELECTION, "assign": '{"orders": [0, 1]}'}).read.selection
    assert assigned == Partitions(frozenset({ORDERS_0, ORDERS_1}))


def test_a_time_wins_over_times_and_those_over_offsets() -> None:
    offsets = {"startingOffsets": '{"orders": {"0": 5}}'}
    times = {"startingOffsetsByTimestamp": '{"orders": {"0": 1000}}'}
    assert stream_settings(BASE | offsets).read.start == AtOffsets({ORDERS_0: 5}, "startingOffsets")
    assert stream_settings(BASE | offsets | times).read.start == AtTimes(
        {ORDERS_0: 1_000}, "startingOffsetsByTimestamp"
    )
    assert stream_settings(BASE | offsets | times | {"startingTimestamp": "7"}).read.start == AtTime(7)


@pytest.mark.parametrize(
    ("text", "millis"),
    [("15m", 900_000), ("30s", 30_000), ("2 min", 120_000), ("1h", 3_600_000), ("250ms", 250), ("1d", 86_400_000)],
)
def test_durations_are_read_as_spark_reads_them(text: str, millis: int) -> None:
    assert stream_settings({**BASE, "maxTriggerDelay": text}).max_trigger_delay_ms == millis


def test_spark_is_told_the_limit_of_a_batch() -> None:
    def limit(**options: str) -> object:
        return TopicStreamReader(BASE | options).getDefaultReadLimit()

    assert limit() == ReadAllAvailable()
    assert limit(maxOffsetsPerTrigger="9") == ReadMaxRows(9)
    assert limit(minOffsetsPerTrigger="3") == ReadMinRows(3)
    assert limit(minOffsetsPerTrigger="3", maxOffsetsPerTrigger="9") == ReadMaxRows(9)


BAD_FOR_BOTH = [
    ({"subscrib": "a"}, "unknown option 'subscrib'; did you mean subscribe?"),
    ({"assign": "{}"}, "exactly one of"),
    ({"kafka.key.deserializer": "x"}, "'kafka.key.deserializer' is not supported: keys are read as bytes"),
    ({"kafka.value.deserializer": "x"}, "values are read as bytes"),
    ({"kafka.auto.offset.reset": "earliest"}, "use option 'startingOffsets'"),
    ({"kafka.enable.auto.commit": "true"}, "the query commits what it has processed"),
    ({"kafka.interceptor.classes": "x"}, "records go to Spark as they are"),
    ({"kafka.fetch.max.byte": "1"}, "unknown setting 'fetch.max.byte'; did you mean fetch.max.bytes?"),
    ({"kafka.isolation.level": "read_some"}, "isolation.level"),
    ({"startingOffsets": "sometime"}, "'startingOffsets' must be earliest, latest or JSON such as"),
    ({"startingOffsets": '{"orders": {"0": -3}}'}, "a number of at least -2 belong there"),
    ({"startingOffsets": '{"orders": {"x": 1}}'}, "has 'x': 1 for 'orders'"),
    ({"startingOffsets": '{"orders": 1}'}, "must have numbers by partition for 'orders'"),
    ({"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}, "a number of at least 0"),
    ({"startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest, not 'guess'"),
    ({"startingTimestamp": "yesterday"}, "'startingTimestamp' must be a whole number, not 'yesterday'"),
    ({"minPartitions": "0"}, "'minPartitions' must be at least 1, not 0"),
    ({"maxRecordsPerPartition": "0"}, "'maxRecordsPerPartition' must be at least 1"),
    ({"failOnDataLoss": "maybe"}, "'failOnDataLoss' must be true or false, not 'maybe'"),
    ({"includeHeaders": "1"}, "'includeHeaders' must be true or false"),
    ({"kafkaConsumer.pollTimeoutMs": "0"}, "must be at least 1"),
]
BAD_FOR_STREAMS = [
    ({"endingOffsets": "latest"}, "'endingOffsets' is for batch reads"),
    ({"endingOffsetsByTimestamp": "{}"}, "'endingOffsetsByTimestamp' is for batch reads"),
    ({"endingTimestamp": "1"}, "'endingTimestamp' is for batch reads"),
    ({"maxOffsetsPerTrigger": "0"}, "'maxOffsetsPerTrigger' must be at least 1"),
    ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "(9) must be at most 'maxOffsetsPerTrigger' (8)"),
    ({"maxTriggerDelay": "soon"}, "must be a duration such as 30s or 15m, not 'soon'"),
]
BAD_FOR_BATCHES = [
    ({"startingOffsets": "latest"}, "a batch read cannot begin at 'latest'"),
    ({"startingOffsets": '{"orders": {"0": -1}}'}, "a batch read cannot begin at 'latest' (-1 in JSON)"),
    ({"endingOffsets": "earliest"}, "a batch read cannot end at 'earliest'"),
    ({"endingOffsets": '{"orders": {"0": -2}}'}, "a batch read cannot end at 'earliest' (-2 in JSON)"),
]
BAD_SELECTIONS = [
    ({}, "not none of them"),
    ({"subscribe": " , "}, "'subscribe' names no topic"),
    ({"subscribePattern": ""}, "'subscribePattern' is empty"),
    ({"subscribePattern": "("}, "'subscribePattern' is no regular expression"),
    ({"assign": "[]"}, "'assign' must be JSON such as"),
    ({"assign": "{}"}, "'assign' names no partition"),
    ({"assign": '{"a": [true]}'}, "must list partitions of 'a'"),
]


@pytest.mark.parametrize(("options", "line"), BAD_FOR_BOTH + BAD_FOR_STREAMS)
def test_a_stream_refuses_in_one_line(options: dict[str, str], line: str) -> None:
    with pytest.raises(OptionError) as raised:
        stream_settings(BASE | options)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("options", "line"), BAD_FOR_BOTH + BAD_FOR_BATCHES)
def test_a_batch_refuses_in_one_line(options: dict[str, str], line: str) -> None:
    with pytest.raises(OptionError) as raised:
        batch_settings(BASE | options)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("options", "line"), BAD_SELECTIONS)
def test_a_selection_of_nothing_is_refused(options: dict[str, str], line: str) -> None:
    with pytest.raises(OptionError) as raised:
        batch_settings(NO_SELECTION | options)
    assert line in str(raised.value)


def test_a_broker_must_be_named() -> None:
    with pytest.raises(OptionError, match=r"'kafka\.bootstrap\.servers' is missing"):
        batch_settings({"subscribe": "a"})


def test_limits_of_streams_have_no_effect_on_a_batch_and_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    batch_settings({**BASE, "maxOffsetsPerTrigger": "5"})
    assert "'maxOffsetsPerTrigger' has no effect" in caplog.text


def test_offsets_must_be_there_for_exactly_the_partitions_that_are_read() -> None:
    bound = AtOffsets({ORDERS_0: 5}, "startingOffsets")
    check_covers(bound, [ORDERS_0])
    with pytest.raises(OptionError, match=r"says nothing of orders-1: name all partitions"):
        check_covers(bound, [ORDERS_0, ORDERS_1])
    with pytest.raises(OptionError, match="names orders-0, of which nothing is read"):
        check_covers(AtTimes({ORDERS_0: 5}, "x"), [])
    check_covers(AtPlace(LATEST), [ORDERS_0])


def test_brokers_are_asked_only_for_what_is_not_known() -> None:
    both = [ORDERS_0, ORDERS_1]
    assert questions(AtPlace(LATEST), both) == ({}, {ORDERS_0: -1, ORDERS_1: -1})
    assert questions(AtTime(9), both) == ({}, {ORDERS_0: 9, ORDERS_1: 9})
    assert questions(AtTimes({ORDERS_0: 3}, "x"), [ORDERS_0]) == ({}, {ORDERS_0: 3})
    assert questions(AtOffsets({ORDERS_0: 7, ORDERS_1: -2}, "x"), both) == ({ORDERS_0: 7}, {ORDERS_1: -2})
