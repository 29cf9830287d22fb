"""Streams of topics: what each micro-batch has, restarts, limits, and the query as a consumer group."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from levada import Admin
from levada.client.admin import GroupState
from levada.client.admin import NewTopic as TopicToMake
from levada.client.types import TopicPartition
from tests.spark.sourcing import Kept, committed, numbered, run_available, send, start, stream

NewTopic = Callable[..., str]
WAIT_SECONDS = 60


def eventually(holds: Callable[[], bool], query: StreamingQuery) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        if query.exception() is not None:
            raise AssertionError(query.exception())
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def forget_commit(checkpoint: Path, batch_id: int) -> None:
    """As if the query had died in this batch, after all its work."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (checkpoint / "commits" / name).unlink()


@contextmanager
def running(frame: DataFrame, checkpoint: Path, kept: Kept) -> Iterator[StreamingQuery]:
    query = start(frame, checkpoint, kept)
    try:
        yield query
    finally:
        query.stop()


def test_a_running_query_reads_what_arrives_and_goes_on_after_a_restart(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    send(bootstrap, topic, numbered(10))
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest")
    kept = Kept()
    with running(frame, tmp_path, kept) as query:
        eventually(lambda: len(kept.values) == 10, query)
        send(bootstrap, topic, numbered(10, first=10))
        eventually(lambda: len(kept.values) == 20, query)
    send(bootstrap, topic, numbered(10, first=20))
    with running(frame, tmp_path, kept) as query:
        eventually(lambda: len(kept.values) == 30, query)
    assert kept.values == list(numbered(30))
    assert all(kept.batches.values()), "no batch without records"


def test_a_query_that_begins_at_the_end_keeps_that_beginning_over_a_crash(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(5))
    frame = stream(spark, bootstrap, subscribe=topic)
    assert run_available(frame, tmp_path).sizes == [0]
    send(bootstrap, topic, numbered(5, first=5))
    forget_commit(tmp_path, 0)
    again = run_available(frame, tmp_path)
    assert again.batches[0] == []
    assert again.values == list(numbered(5, first=5))


def test_a_batch_that_is_repeated_has_the_same_records(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    send(bootstrap, topic, numbered(10))
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest", **{"kafka.group.id": topic})
    first = run_available(frame, tmp_path)
    assert first.values == list(numbered(10))
    send(bootstrap, topic, numbered(10, first=10))
    forget_commit(tmp_path, 0)
    other_group = f"{topic}-other"
    while_running: list[int] = []

    class Watching(Kept):
        def keep(self, frame: DataFrame, batch_id: int) -> None:
            while_running.append(sum(committed(bootstrap, other_group).values()))
            super().keep(frame, batch_id)

    again = Watching()
    repeated = stream(spark, bootstrap, subscribe=topic, **{"kafka.group.id": other_group})
    run_available(repeated, tmp_path, again)
    assert sorted(again.batches[0]) == sorted(first.batches[0])
    assert again.values == list(numbered(20))
    # A batch is committed when it is done, and not before.
    assert while_running == [0, 10]
    assert sum(committed(bootstrap, other_group).values()) == 20


def test_a_limit_is_shared_in_proportion_and_kept_by_every_batch(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    send(bootstrap, topic, numbered(75), 0)
    send(bootstrap, topic, numbered(25, first=75), 1)
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=40)
    kept = run_available(frame, tmp_path)
    assert kept.sizes == [40, 40, 20]
    assert [sum(row.partition == 0 for row in kept.batches[each]) for each in range(3)] == [30, 30, 15]
    assert kept.values == list(numbered(100))


def test_available_now_leaves_what_arrives_later_to_the_next_run(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(10))
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=5)
    kept = Kept()

    class Meddling(Kept):
        def keep(self, frame: DataFrame, batch_id: int) -> None:
            send(bootstrap, topic, numbered(1, first=10 + batch_id))
            kept.keep(frame, batch_id)

    run_available(frame, tmp_path, Meddling())
    assert kept.values == list(numbered(10))
    run_available(frame, tmp_path, kept)
    assert kept.values == list(numbered(12))


def test_a_single_batch_has_everything(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(10))
    kept = Kept()
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    assert start(frame, tmp_path, kept, once=True).awaitTermination(WAIT_SECONDS)
    assert kept.sizes == [10]


def test_a_batch_waits_for_enough_records_but_not_for_ever(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    frame = stream(
        spark, bootstrap, subscribe=topic, startingOffsets="earliest", minOffsetsPerTrigger=10, maxTriggerDelay="3s"
    )
    kept = Kept()
    with running(frame, tmp_path, kept) as query:
        eventually(lambda: 0 in kept.batches, query)
        began = time.monotonic()
        send(bootstrap, topic, numbered(6))
        eventually(lambda: len(kept.values) == 6, query)
        assert time.monotonic() - began > 1.5, "six of ten had to wait"
        send(bootstrap, topic, numbered(12, first=6))
        began = time.monotonic()
        eventually(lambda: len(kept.values) == 18, query)
    assert kept.values == list(numbered(18))


def test_new_partitions_and_topics_are_read_from_their_beginning(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    later = f"{topic}-later"
    send(bootstrap, topic, numbered(5))
    kept = Kept()
    with running(stream(spark, bootstrap, subscribePattern=f"{topic}.*"), tmp_path, kept) as query:
        eventually(lambda: 0 in kept.batches, query)
        with Admin(bootstrap) as admin:
            admin.create_partitions({topic: 3}).raise_any()
            admin.create_topics([TopicToMake(later, 2)]).raise_any()
        send(bootstrap, topic, numbered(5, first=5), 2)
        send(bootstrap, later, numbered(5, first=10), 1)
        eventually(lambda: len(kept.values) == 10, query)
    assert kept.values == list(numbered(10, first=5))


def test_a_query_is_a_group_whose_progress_and_lag_kafkas_tools_see(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    send(bootstrap, topic, numbered(10), 0)
    send(bootstrap, topic, numbered(4, first=10), 1)
    frame = stream(spark, bootstrap, subscribe=topic, startingOffsets="earliest", groupIdPrefix=f"group-{topic}")
    run_available(frame, tmp_path)
    with Admin(bootstrap) as admin:
        groups = [each.group_id for each in admin.list_groups() if each.group_id.startswith(f"group-{topic}-")]
        described = admin.describe_consumer_groups(groups)[groups[0]]
    assert len(groups) == 1
    assert described.state is GroupState.EMPTY
    assert committed(bootstrap, groups[0]) == {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 4}
    send(bootstrap, topic, numbered(6, first=14), 1)
    run_available(frame, tmp_path)
    assert committed(bootstrap, groups[0]) == {TopicPartition(topic, 0): 10, TopicPartition(topic, 1): 10}
    with Admin(bootstrap) as admin:
        assert [each.group_id for each in admin.list_groups() if each.group_id.startswith(f"group-{topic}-")] == groups


def test_the_progress_of_a_query_shows_how_far_behind_it_is(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    send(bootstrap, topic, numbered(30))
    frame = stream(
        spark,
        bootstrap,
        subscribe=topic,
        startingOffsets="earliest",
        maxOffsetsPerTrigger=20,
        **{"kafka.group.id": f"named-{topic}"},
    )
    query = start(frame, tmp_path, Kept(), availableNow=True)
    assert query.awaitTermination(WAIT_SECONDS)
    first = query.recentProgress[0].sources[0]
    assert json.loads(first.endOffset)[topic] == {"0": 20}
    assert json.loads(first.latestOffset) == {topic: {"0": 30}}
    assert committed(bootstrap, f"named-{topic}") == {TopicPartition(topic, 0): 30}


def test_a_stream_that_cannot_be_says_so_in_one_line(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="OptionError: topic 'no-such-topic' is not there: create it"):
        run_available(stream(spark, bootstrap, subscribe="no-such-topic"), tmp_path)
