"""What the sink calls its transactions at brokers."""

from hypothesis import given
from hypothesis import strategies as st

from levada.model.hashes import coordinator_partition
from levada.spark.sink.names import WriteName

COUNT = 50


@given(st.text(min_size=1, max_size=20), st.integers(0, 10_000), st.integers(0, 20))
def test_all_transactions_of_a_write_have_the_drivers_coordinator(query: str, partition: int, attempt: int) -> None:
    name = WriteName.of_query(query)
    task = name.task_id(partition, attempt, partition_count=COUNT)
    assert coordinator_partition(task, COUNT) == coordinator_partition(name.driver_id, COUNT)


@given(st.text(min_size=1), st.text(min_size=1), st.one_of(st.none(), st.text(min_size=1)))
def test_no_write_has_the_prefix_of_another(one: str, other: str, topic: str | None) -> None:
    names = {WriteName.of_query(one), WriteName.of_query(other), WriteName.of_application(one, topic)}
    for name in names:
        assert [each for each in names if each.driver_id.startswith(name.prefix)] == [name]


def test_attempts_at_a_task_have_transactions_of_their_own() -> None:
    name = WriteName.of_query("q")
    ids = {name.task_id(partition, attempt, partition_count=COUNT) for partition in range(20) for attempt in range(4)}
    assert len(ids) == 80
    assert name.driver_id not in ids


def test_one_version_may_be_written_to_several_topics() -> None:
    daily = WriteName.of_application("daily", "orders")
    assert daily != WriteName.of_application("daily", "returns")
    assert daily != WriteName.of_application("daily", None)
