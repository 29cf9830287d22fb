"""The writers that Spark makes: plain values that ask no broker until they have something to say."""

import logging
import pickle

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from levada.spark.options import OptionError
from levada.spark.sink.names import WriteName
from levada.spark.sink.options import Delivery
from levada.spark.sink.report import TaskReport
from levada.spark.sink.writers import TopicStreamWriter, TopicWriter

OPTIONS = {"kafka.bootstrap.servers": "no-broker.invalid:1", "topic": "orders"}
SCHEMA = StructType([StructField("value", StringType())])
NAME = WriteName.of_query("q")


def test_writers_can_be_sent_to_other_processes() -> None:
    batch = TopicWriter(OPTIONS, SCHEMA, overwrite=False)
    assert vars(pickle.loads(pickle.dumps(batch))) == vars(batch)
    stream = TopicStreamWriter(OPTIONS, SCHEMA)
    assert vars(pickle.loads(pickle.dumps(stream))) == vars(stream)


def test_a_report_can_be_sent_to_the_driver() -> None:
    report = TaskReport(NAME, Delivery.EXACTLY_ONCE, rows=3)
    assert pickle.loads(pickle.dumps(report)) == report


def test_a_topic_is_not_overwritten() -> None:
    with pytest.raises(OptionError, match="only added to"):
        TopicWriter(OPTIONS, SCHEMA, overwrite=True)


def test_each_batch_write_has_a_name_of_its_own() -> None:
    one, other = (TopicWriter(OPTIONS, SCHEMA, overwrite=False) for _ in range(2))
    assert vars(one)["_name"] != vars(other)["_name"]


def test_nothing_to_commit_asks_no_broker() -> None:
    stream, batch = TopicStreamWriter(OPTIONS, SCHEMA), TopicWriter(OPTIONS, SCHEMA, overwrite=False)
    stream.commit([], 0)
    stream.commit([TaskReport(NAME, Delivery.EXACTLY_ONCE)], 0)
    stream.commit([TaskReport(NAME, Delivery.AT_LEAST_ONCE, rows=1)], 0)
    stream.abort([None, None], 0)
    batch.commit([])
    batch.commit([TaskReport(NAME, Delivery.EXACTLY_ONCE)])


def test_brokers_that_can_do_less_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    stream = TopicStreamWriter(OPTIONS, SCHEMA)
    report = TaskReport(WriteName.of_query("warned"), Delivery.AT_LEAST_ONCE, rows=1)
    with caplog.at_level(logging.WARNING, "levada.spark"):
        stream.commit([report], 0)
        stream.commit([report], 1)
    (message,) = caplog.messages
    assert "rows are written at least once" in message
    assert "\n" not in message


def test_a_user_who_asked_for_less_is_not_warned(caplog: pytest.LogCaptureFixture) -> None:
    stream = TopicStreamWriter({**OPTIONS, "delivery": "at-least-once"}, SCHEMA)
    stream.commit([TaskReport(WriteName.of_query("asked"), Delivery.AT_LEAST_ONCE, rows=1)], 0)
    assert caplog.messages == []
