"""The sink's transactions at a real broker, task by task and commit by commit, as Spark would call them."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from levada import Admin, Producer
from levada.client.admin import NewTopic
from levada.client.errors import Disconnected
from levada.client.producer import group_commit, session
from levada.client.types import GroupMetadata, OffsetAndMetadata
from levada.spark.kept_clients import KeptClients
from levada.spark.sink import brokers, commit, kept
from levada.spark.sink import task as task_module
from levada.spark.sink.brokers import MOST_TASKS, end_open
from levada.spark.sink.commit import DRIVER_TIMEOUT_MS, BatchCommitFailed
from levada.spark.sink.kept import driver_key, drivers
from levada.spark.sink.names import MARKER_PARTITION
from levada.spark.sink.options import Delivery
from levada.spark.sink.report import TaskReport
from levada.spark.sink.task import WriteAttempt, WriteFailed, write_rows
from tests.brokers import BrokerProcess
from tests.spark.sink_checks import (
    check_nothing_hangs,
    numbers,
    open_transactions,
)
from tests.spark.sink_query import Query, rows_of


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(partitions=2)


def test_a_batch_becomes_visible_with_its_marker_and_not_before(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    reports = [query.write(0, 0, [1, 2]), query.write(0, 1, [3])]
    assert numbers(bootstrap, topic) == []
    assert query.marker() is None
    query.commit(0, *reports)
    assert numbers(bootstrap, topic) == [1, 2, 3]
    assert query.marker() == 0
    check_nothing_hangs(bootstrap, topic)


def test_only_what_spark_reported_becomes_visible(bootstrap: str, topic: str) -> None:
    """The loser of speculation, and an attempt that failed after it had handed its rows over."""
    query = Query(bootstrap, topic)
    query.write(0, 0, [1, 2], attempt=0)
    query.write(0, 1, [3], attempt=1)
    query.commit(0, query.write(0, 0, [1, 2], attempt=1), query.write(0, 1, [3], attempt=0))
    assert numbers(bootstrap, topic) == [1, 2, 3]
    check_nothing_hangs(bootstrap, topic)


def test_a_batch_that_is_committed_again_changes_nothing(bootstrap: str, topic: str) -> None:
    """As after a driver that was killed before Spark noted the batch: all tasks run again."""
    first, second = Query(bootstrap, topic, "q-" + topic), Query(bootstrap, topic, "q-" + topic)
    first.commit(4, first.write(4, 0, [1, 2]))
    task_module.note_looked_up(second.name, second._run)
    report = second.write(4, 0, [1, 2])
    assert report.ticket is not None
    second.commit(4, report)
    assert numbers(bootstrap, topic) == [1, 2]
    check_nothing_hangs(bootstrap, topic)


def test_tasks_of_a_batch_that_is_visible_write_nothing(bootstrap: str, topic: str) -> None:
    first, second = Query(bootstrap, topic, "q-" + topic), Query(bootstrap, topic, "q-" + topic)
    first.commit(0, first.write(0, 0, [1]))
    report = second.write(0, 0, [1])
    assert report.is_skipped
    assert report.ticket is None
    second.commit(0, report)
    second.commit(1, second.write(1, 0, [2]))
    assert numbers(bootstrap, topic) == [1, 2]


def test_tasks_of_a_driver_that_is_gone_never_become_visible(bootstrap: str, topic: str) -> None:
    """It had more tasks, so that the ids of some are not taken over by those of the next run."""
    dead, alive = Query(bootstrap, topic, "q-" + topic), Query(bootstrap, topic, "q-" + topic)
    for partition in range(4):
        dead.write(0, partition, [100 + partition])
    alive.commit(0, alive.write(0, 0, [1, 2]))
    assert numbers(bootstrap, topic) == [1, 2]
    check_nothing_hangs(bootstrap, topic)


def test_an_older_driver_cannot_commit_after_a_newer_one(bootstrap: str, topic: str) -> None:
    older, newer = Query(bootstrap, topic, "q-" + topic), Query(bootstrap, topic, "q-" + topic)
    late = older.write(0, 0, [1, 2])
    newer.commit(0, newer.write(0, 0, [1, 2]))
    newer.commit(1, newer.write(1, 0, [3]))
    with pytest.raises(BatchCommitFailed, match="batch 1 of this query is written, and Spark is at batch 0 again"):
        older.commit(0, late)
    older.abort(late)
    assert numbers(bootstrap, topic) == [1, 2, 3]
    check_nothing_hangs(bootstrap, topic)


def test_the_next_batch_finds_the_clients_of_the_last(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = Query(bootstrap, topic)
    query.commit(0, query.write(0, 0, [1]), query.write(0, 1, [2]))
    key = driver_key(query.options, query.name.driver_id)
    driver = drivers.kept(key)
    assert driver is not None

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a client is made anew")

    monkeypatch.setattr(kept, "Producer", refuse)
    monkeypatch.setattr(kept, "Admin", refuse)
    monkeypatch.setattr(commit, "Producer", refuse)
    for batch in (1, 2):
        query.commit(batch, query.write(batch, 0, [10 + batch]), query.write(batch, 1, [20 + batch]))
        assert query.marker() == batch
    assert drivers.kept(key) is driver
    assert driver.decided == 2
    assert numbers(bootstrap, topic) == [1, 2, 11, 12, 21, 22]
    check_nothing_hangs(bootstrap, topic)


def test_a_worker_whose_epoch_another_one_took_looks_at_the_marker_again(bootstrap: str, topic: str) -> None:
    """Spark may have any of its workers commit a batch, each with a producer of its own."""
    query = Query(bootstrap, topic)
    query.commit(0, query.write(0, 0, [1]))
    key = driver_key(query.options, query.name.driver_id)
    first = drivers._kept.pop(key)
    query.commit(1, query.write(1, 0, [2]))
    second = drivers._kept.pop(key)
    drivers._kept[key] = first
    query.commit(2, query.write(2, 0, [3]))
    # This one believes that batch 2 is to be decided, and its tasks have written it again.
    drivers.drop(key)
    drivers._kept[key] = second
    again = Query(bootstrap, topic, query.query_id)
    task_module.note_looked_up(again.name, again._run)
    again.commit(2, again.write(2, 0, [3]))
    assert again.marker() == 2
    assert numbers(bootstrap, topic) == [1, 2, 3]
    check_nothing_hangs(bootstrap, topic)


def test_a_task_whose_id_another_worker_had_meanwhile_takes_it_anew(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    query.commit(0, query.write(0, 0, [1]))
    mine = dict(kept._producers._kept)
    kept._producers._kept.clear()
    query.commit(1, query.write(1, 0, [2]))
    others = list(kept._producers._kept.values())
    kept._producers._kept.clear()
    kept._producers._kept.update(mine)
    query.commit(2, query.write(2, 0, [3]))
    for producer in others:
        producer.close()
    assert numbers(bootstrap, topic) == [1, 2, 3]
    check_nothing_hangs(bootstrap, topic)


def test_clients_that_are_used_no_more_are_closed() -> None:
    class Client:
        is_open = True

        def close(self) -> None:
            self.is_open = False

    clients: KeptClients[Client] = KeptClients(most=2)
    made = {}
    for key in "abcab":
        with clients.taken(key, Client) as made[key]:
            pass
    assert [key for key, client in made.items() if client.is_open] == ["a", "b"]
    with pytest.raises(ZeroDivisionError), clients.taken("a", Client) as client:
        raise ZeroDivisionError
    assert not client.is_open
    assert clients.kept("a") is None
    with clients.taken("d", Client) as outer, clients.taken("d", Client) as inner:
        assert outer is not inner
    assert [one.is_open for one in (outer, inner)] == [True, False]


def test_a_driver_that_loses_its_id_between_marker_and_commit_publishes_nothing(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    older, newer = Query(bootstrap, topic, "q-" + topic), Query(bootstrap, topic, "q-" + topic)
    report = older.write(0, 0, [1])
    real_commit_group = Producer.commit_group

    def overtaken(self: Producer, tickets: Any, timeout: float | None = None) -> None:
        monkeypatch.setattr(Producer, "commit_group", real_commit_group)
        newer.commit(0, newer.write(0, 0, [1]))
        real_commit_group(self, tickets, timeout)

    monkeypatch.setattr(Producer, "commit_group", overtaken)
    with pytest.raises(BatchCommitFailed, match="another run of the same query has taken over"):
        older.commit(0, report)
    assert numbers(bootstrap, topic) == [1]
    assert newer.marker() == 0


def test_an_abort_never_undoes_a_batch_that_was_published(bootstrap: str, topic: str) -> None:
    """Spark aborts when a commit raised, even if that was after the decision."""
    query = Query(bootstrap, topic)
    reports = [query.write(0, 0, [1]), query.write(0, 1, [2])]
    query.commit(0, *reports)
    query.abort(*reports)
    assert numbers(bootstrap, topic) == [1, 2]
    query.commit(1, query.write(1, 0, [3]))
    assert numbers(bootstrap, topic) == [1, 2, 3]
    check_nothing_hangs(bootstrap, topic)


def test_fencing_a_committed_member_does_not_undo_it(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    report = query.write(0, 0, [1])
    query.commit(0, report)
    assert report.ticket is not None
    with Admin(bootstrap) as admin:
        admin.fence_producers([report.ticket.transactional_id, query.name.driver_id]).raise_any()
    assert numbers(bootstrap, topic) == [1]
    assert query.marker() == 0


def test_an_abort_ends_what_tasks_left_open(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    reported = query.write(0, 0, [1])
    query.write(0, 1, [2])
    query.abort(reported)
    assert numbers(bootstrap, topic) == []
    check_nothing_hangs(bootstrap, topic)


def test_an_abort_leaves_the_tasks_of_a_newer_run_alone(bootstrap: str, topic: str) -> None:
    older, newer = Query(bootstrap, topic, "q-" + topic), Query(bootstrap, topic, "q-" + topic)
    failed = older.write(0, 0, [1])
    running = [newer.write(0, 0, [1]), newer.write(0, 1, [2])]
    older.abort(failed)
    newer.commit(0, *running)
    assert numbers(bootstrap, topic) == [1, 2]


def test_an_aborted_batch_can_be_written_again(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    query.abort(query.write(0, 0, [1]))
    query.commit(0, query.write(0, 0, [1]))
    assert numbers(bootstrap, topic) == [1]
    check_nothing_hangs(bootstrap, topic)


def test_a_batch_without_rows_costs_nothing(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    query.commit(0, query.write(0, 0, []), query.write(0, 1, []))
    assert query.marker() is None
    with Admin(bootstrap) as admin:
        ids = [each.transactional_id for each in admin.list_transactions()]
    assert [each for each in ids if each.startswith(query.name.prefix)] == []
    query.commit(1, query.write(1, 0, [1]), query.write(1, 1, []))
    assert numbers(bootstrap, topic) == [1]


def test_a_lost_answer_is_asked_for_again(bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision was made, and the connection lost before the answer came."""
    query = Query(bootstrap, topic)
    real, calls = group_commit.commit_together, list[object]()

    async def unlucky(*arguments: Any) -> object:
        answer = await real(*arguments)
        calls.append(answer)
        if len(calls) == 1:
            raise Disconnected("the answer was lost")
        return answer

    monkeypatch.setattr(session, "commit_together", unlucky)
    query.commit(0, query.write(0, 0, [1]), query.write(0, 1, [2]))
    assert len(calls) == 2
    assert numbers(bootstrap, topic) == [1, 2]
    check_nothing_hangs(bootstrap, topic)


def test_a_commit_that_outlasts_the_drivers_transaction_begins_anew(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when brokers are away for a minute in the middle of it: the tasks' transactions last longer."""
    query = Query(bootstrap, topic)
    real_commit_group, clock = Producer.commit_group, [0.0]
    monkeypatch.setattr("levada.spark.sink.commit.time.monotonic", lambda: clock[0])

    def delayed(self: Producer, tickets: Any, timeout: float | None = None) -> None:
        if clock[0] == 0.0:
            with Admin(bootstrap) as admin:
                admin.fence_producers([query.name.driver_id]).raise_any()
            clock[0] = DRIVER_TIMEOUT_MS / 1_000
        real_commit_group(self, tickets, timeout)

    monkeypatch.setattr(Producer, "commit_group", delayed)
    query.commit(0, query.write(0, 0, [1]))
    assert numbers(bootstrap, topic) == [1]
    assert query.marker() == 0


def test_a_marker_that_was_deleted_is_not_taken_for_a_batch_to_be_written(bootstrap: str, topic: str) -> None:
    first, second = Query(bootstrap, topic, "q-" + topic), Query(bootstrap, topic, "q-" + topic)
    first.commit(0, first.write(0, 0, [1]))
    report = second.write(0, 0, [1])
    with Admin(bootstrap) as admin:
        admin.delete_groups([second.name.marker_group]).raise_any()
    with pytest.raises(BatchCommitFailed, match=r"marker in group .* is gone"):
        second.commit(0, report)
    assert numbers(bootstrap, topic) == [1]


def test_more_tasks_than_one_commit_can_have_are_refused_with_what_to_do(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    report = query.write(0, 0, [1])
    with pytest.raises(BatchCommitFailed, match=r"1000 tasks have written rows, .* coalesce\(999\)"):
        query.commit(0, *[report] * (MOST_TASKS + 1))
    query.abort(report)
    assert numbers(bootstrap, topic) == []
    check_nothing_hangs(bootstrap, topic)


def test_a_task_too_many_is_refused_before_it_writes_and_tasks_without_rows_count_nothing(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (brokers, task_module):
        monkeypatch.setattr(module, "MOST_TASKS", 3)
    query = Query(bootstrap, topic)
    # The attempts at one task are one.
    failed = query.write(0, 0, [1])
    reports = [query.write(0, 0, [1], attempt=1), query.write(0, 7, []), query.write(0, 2_000, [2])]
    reports.append(query.write(0, 1, [3]))
    opened = open_transactions(bootstrap)
    with pytest.raises(WriteFailed, match=r"3 other tasks have written rows, .* coalesce\(3\)"):
        query.write(0, 3, [4])
    assert open_transactions(bootstrap) == opened
    query.commit(0, *reports)
    assert numbers(bootstrap, topic) == [1, 2, 3]
    query.abort(failed)
    check_nothing_hangs(bootstrap, topic)


def test_hundreds_of_tasks_are_committed_as_one(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    query.commit(0, *[query.write(0, partition, [partition]) for partition in range(200)])
    assert numbers(bootstrap, topic) == list(range(200))
    check_nothing_hangs(bootstrap, topic)


def test_a_task_whose_rows_fail_aborts_its_transaction_at_once(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)

    def rows() -> Iterator[pa.RecordBatch]:
        yield rows_of([1, 2])
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_rows(query.options, WriteAttempt(query.name, 0, 0, 0), rows())
    check_nothing_hangs(bootstrap, topic)
    assert numbers(bootstrap, topic) == []


def test_a_record_that_is_too_large_fails_the_task_with_one_line(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    batch = pa.RecordBatch.from_pydict({"value": ["1", "x" * 3_000_000]})
    with pytest.raises(WriteFailed, match=r"^rows were not written: [^\n]*max.request.size[^\n]*$"):
        write_rows(query.options, WriteAttempt(query.name, 0, 0, 0), iter([batch]))
    check_nothing_hangs(bootstrap, topic)


def test_a_topic_that_takes_less_than_the_producer_fails_the_task(
    bootstrap: str, new_topic: Callable[..., str]
) -> None:
    small = new_topic(configs={"max.message.bytes": "1000"})
    for delivery in Delivery:
        query = Query(bootstrap, small, delivery=delivery.value)
        batch = pa.RecordBatch.from_pydict({"value": ["x" * 3_000]})
        with pytest.raises(WriteFailed, match="MESSAGE_TOO_LARGE"):
            write_rows(query.options, WriteAttempt(query.name, 0, 0, 0), iter([batch]))
    check_nothing_hangs(bootstrap, small)


def test_a_timeout_that_brokers_do_not_allow_is_told(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic, transactionTimeout="2h")
    with pytest.raises(WriteFailed, match="INVALID_TRANSACTION_TIMEOUT"):
        query.write(0, 0, [1])


def test_a_task_that_outlasts_its_transaction_fails_the_commit_and_says_so(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic)
    report = query.write(0, 0, [1])
    with Admin(bootstrap) as admin:
        end_open(admin, query.name)
    with pytest.raises(BatchCommitFailed, match=r"took longer than transactionTimeout \(900000 ms\)"):
        query.commit(0, report)
    assert numbers(bootstrap, topic) == []
    assert query.marker() is None
    check_nothing_hangs(bootstrap, topic)


def test_a_driver_that_never_comes_leaves_its_tasks_to_their_timeout(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200").start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 2)]).raise_any()
        query = Query(broker.bootstrap, "orders", transactionTimeout="1s")
        query.write(0, 0, [1])
        query.write(0, 1, [2])
        assert len(open_transactions(broker.bootstrap)) == 2
        give_up_at = time.monotonic() + 20
        while open_transactions(broker.bootstrap):
            assert time.monotonic() < give_up_at
            time.sleep(0.05)
        check_nothing_hangs(broker.bootstrap, "orders")
        assert numbers(broker.bootstrap, "orders") == []
    finally:
        broker.kill()


def test_transactions_of_other_queries_are_not_touched(bootstrap: str, topic: str) -> None:
    one, other = Query(bootstrap, topic, f"{topic}"), Query(bootstrap, topic, f"{topic}-2")
    waiting = other.write(0, 0, [10])
    one.commit(0, one.write(0, 0, [1]))
    assert [each.split("/")[0] for each in open_transactions(bootstrap)] == [f"levada-spark-{topic}-2"]
    other.commit(0, waiting)
    assert numbers(bootstrap, topic) == [1, 10]


@pytest.mark.parametrize("delivery", [Delivery.AT_LEAST_ONCE, Delivery.ATOMIC_TASKS])
def test_other_deliveries_are_visible_when_the_task_ends(bootstrap: str, topic: str, delivery: Delivery) -> None:
    query = Query(bootstrap, topic, delivery=delivery.value)
    assert query.write(0, 0, [1, 2]) == TaskReport(query.name, delivery, rows=2)
    assert numbers(bootstrap, topic) == [1, 2]
    check_nothing_hangs(bootstrap, topic)


def test_an_atomic_task_that_fails_shows_nothing(bootstrap: str, topic: str) -> None:
    query = Query(bootstrap, topic, delivery="atomic-tasks")

    def rows() -> Iterator[pa.RecordBatch]:
        yield rows_of([1, 2])
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_rows(query.options, WriteAttempt(query.name, 0, 0, 0), rows())
    assert numbers(bootstrap, topic) == []
    check_nothing_hangs(bootstrap, topic)


def test_the_marker_waits_for_no_reader_in_a_task(bootstrap: str, topic: str) -> None:
    """A driver died with the marker in its open transaction: tasks of the next run read the one before at once."""
    query = Query(bootstrap, topic, "q-" + topic)
    query.commit(0, query.write(0, 0, [1]))
    settings = {**query.options.settings, "transactional.id": query.name.driver_id}
    dead = Producer(**settings)
    dead.init_transactions()
    dead.begin_transaction()
    dead.send_offsets_to_transaction({MARKER_PARTITION: OffsetAndMetadata(1)}, GroupMetadata(query.name.marker_group))
    assert query.name.driver_id in open_transactions(bootstrap)
    following = Query(bootstrap, topic, "q-" + topic)
    report = following.write(1, 0, [2])
    assert not report.is_skipped
    following.commit(1, report)
    dead.close(0.1)
    assert numbers(bootstrap, topic) == [1, 2]
    assert following.marker() == 1
    check_nothing_hangs(bootstrap, topic)


def test_brokers_that_cannot_commit_groups_get_rows_at_least_once(
    bootstrap: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unable = brokers.Abilities(can_commit_groups=False, coordinator_count=0)
    monkeypatch.setattr(brokers, "_known", {bootstrap: unable})
    assert Query(bootstrap, topic).write(0, 0, [1]).delivery is Delivery.AT_LEAST_ONCE
    with pytest.raises(ValueError, match="use delivery=atomic-tasks or delivery=at-least-once"):
        Query(bootstrap, topic, delivery="exactly-once").write(0, 0, [2])
    assert numbers(bootstrap, topic) == [1]
