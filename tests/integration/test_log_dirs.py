"""Several directories of logs, as clients and tools see them: placement, descriptions, and orders to move replicas."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from levada import Admin, Consumer
from levada.client.admin import ConfigResource, NewTopic, Replica
from levada.client.errors import UnknownTopicOrPartition
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from tests.brokers import BrokerProcess, sound
from tests.integration.directories import NAMES, RATE, SEGMENT_BYTES, SLOW, Moving, limit_moves, three_directories
from tests.tools.running import run_ours
from tests.tools.scenario import Ran


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with sound(three_directories(tmp_path_factory.mktemp("log-dirs"))) as process:
        yield process


@pytest.fixture
def admin(broker: BrokerProcess) -> Iterator[Admin]:
    with Admin(broker.bootstrap) as made:
        limit_moves(made, None)
        yield made


def partitions_in(admin: Admin) -> dict[str, set[TopicPartition]]:
    """By the name of the directory."""
    return {Path(path).name: set(found.replicas) for path, found in admin.describe_log_dirs([1])[1].items()}


def tool(broker: BrokerProcess, *arguments: str) -> Ran:
    name, *rest = arguments
    return run_ours([name, "--bootstrap-server", broker.bootstrap, *rest])


# Placement


def test_new_partitions_go_where_the_fewest_are(tmp_path: Path) -> None:
    broker = three_directories(tmp_path).start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 7)]).raise_any()
            assert partitions_in(admin) == {
                "a": {TopicPartition("t", index) for index in (0, 3, 6)},
                "b": {TopicPartition("t", index) for index in (1, 4)},
                "c": {TopicPartition("t", index) for index in (2, 5)},
            }
            Moving(broker, admin, "t").move_to("c")
            Moving(broker, admin, "t").arrive_in("c")
            admin.create_topics([NewTopic("u", 2)]).raise_any()
            found = partitions_in(admin)
            assert Counter({name: len(one) for name, one in found.items()}) == Counter(a=3, b=3, c=3)
            for name in NAMES:
                on_disk = {path.name for path in (tmp_path / name).glob("[tu]-*") if "-delete" not in path.name}
                assert on_disk == {str(partition) for partition in found[name]}
    finally:
        broker.kill()


# Descriptions


def test_every_client_and_the_tool_describe_the_same(broker: BrokerProcess, admin: Admin) -> None:
    moving = Moving(broker, admin, "described").create()
    moving.fill(250_000)
    ours = admin.describe_log_dirs([1])[1]
    sizes = {
        (path, str(partition)): replica.size_bytes
        for path, found in ours.items()
        for partition, replica in found.replicas.items()
    }
    client: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        (theirs,) = client.describe_log_dirs()
    finally:
        client.close()
    assert [one["log_dir"] for one in theirs["log_dirs"]] == [str(path) for path in broker.data_directories]
    assert {
        (one["log_dir"], f"{topic['name']}-{partition['partition_index']}"): partition["partition_size"]
        for one in theirs["log_dirs"]
        for topic in one["topics"]
        for partition in topic["partitions"]
    } == sizes
    ran = tool(broker, "log-dirs", "--describe")
    document = json.loads(ran.out.splitlines()[-1])
    assert {
        (one["logDir"], partition["partition"]): partition["size"]
        for one in document["brokers"][0]["logDirs"]
        for partition in one["partitions"]
    } == sizes
    assert all(found.error is None and found.total_bytes and found.usable_bytes for found in ours.values())


def test_a_move_under_way_is_described_in_both_places(broker: BrokerProcess, admin: Admin) -> None:
    moving = Moving(broker, admin, "both").create()
    count = moving.fill(4 * SEGMENT_BYTES)
    source = moving.place
    target = next(name for name in NAMES if name != source)
    limit_moves(admin, SLOW)
    moving.move_to(target)
    directories = admin.describe_log_dirs([1])[1]
    old = directories[str(moving.root / source)].replicas[moving.partition]
    new = directories[str(moving.root / target)].replicas[moving.partition]
    assert (old.is_future, old.offset_lag, new.is_future) == (False, 0, True)
    assert 0 < new.offset_lag <= count
    assert new.size_bytes < old.size_bytes
    assert [line for line in moving.directories() if line.endswith("-future")]
    limit_moves(admin, None)
    moving.arrive_in(target)
    assert moving.directories() == [f"{target}/both-0"]


# Orders to move


def test_a_replica_that_is_where_it_should_be_stays(broker: BrokerProcess, admin: Admin) -> None:
    moving = Moving(broker, admin, "stays").create()
    moving.fill(SEGMENT_BYTES)
    place = moving.place
    moving.move_to(place)
    assert (moving.place, moving.target) == (place, "")
    assert moving.directories() == [f"{place}/stays-0"]


@pytest.mark.parametrize("name", NAMES)
def test_a_partition_is_made_where_it_was_wanted_before_it_was_there(
    broker: BrokerProcess, admin: Admin, name: str
) -> None:
    for number in range(2):
        moving = Moving(broker, admin, f"wanted-in-{name}-{number}")
        with pytest.raises(UnknownTopicOrPartition):
            moving.move_to(name)
        moving.create()
        assert moving.directories() == [f"{name}/{moving.topic}-0"]


def test_orders_that_cannot_be_followed_are_refused_one_by_one(broker: BrokerProcess, admin: Admin) -> None:
    moving = Moving(broker, admin, "refused").create()
    elsewhere = next(name for name in NAMES if name != moving.place)
    outcome = admin.alter_replica_log_dirs(
        {
            moving.replica: str(moving.root / elsewhere),
            Replica("refused", 5, 1): str(moving.root / elsewhere),
            Replica("refused", 6, 1): f"{moving.root}/nowhere",
            Replica("refused", 7, 1): elsewhere,
        }
    )
    assert set(outcome.done) == {moving.replica}
    assert {replica.partition: error.code for replica, error in outcome.errors.items()} == {
        5: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        6: ErrorCode.LOG_DIR_NOT_FOUND,
        7: ErrorCode.LOG_DIR_NOT_FOUND,
    }
    moving.arrive_in(elsewhere)


def test_kafka_python_moves_a_replica(broker: BrokerProcess, admin: Admin) -> None:
    moving = Moving(broker, admin, "by-kafka-python").create()
    count = moving.fill(2 * SEGMENT_BYTES)
    target = next(name for name in NAMES if name != moving.place)
    client: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        (verdict,) = client.alter_replica_log_dirs({("by-kafka-python", 0, 1): str(moving.root / target)}).values()
    finally:
        client.close()
    assert verdict.errno == ErrorCode.NONE
    moving.arrive_in(target)
    assert offsets_of(broker, moving.topic) == list(range(count))


def offsets_of(broker: BrokerProcess, topic: str) -> list[int]:
    """Of all records, as a consumer reads them."""
    with Consumer(broker.bootstrap, auto_offset_reset="earliest") as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        found: list[int] = []
        while consumer.position(partition) < end:
            found += [record.offset for record in consumer.poll(1.0)]
        return found


# The tool that moves


def plan(moving: Moving, target: str) -> list[str]:
    path = moving.root / f"{moving.topic}.json"
    path.write_text(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {
                        "topic": moving.topic,
                        "partition": 0,
                        "replicas": [1],
                        "log_dirs": [str(moving.root / target)],
                    }
                ],
            }
        )
    )
    return ["--reassignment-json-file", str(path)]


def throttle(admin: Admin) -> str | None:
    broker = ConfigResource.broker(1)
    entry = admin.describe_configs([broker])[broker].get(RATE)
    return None if entry is None or entry.is_default else entry.value


def test_the_tool_moves_a_replica_slowly_and_takes_the_throttle_away(broker: BrokerProcess, admin: Admin) -> None:
    moving = Moving(broker, admin, "by-tool").create()
    moving.fill(4 * SEGMENT_BYTES)
    source = moving.place
    target = next(name for name in NAMES if name != source)
    where = plan(moving, target)
    slowly = ["--replica-alter-log-dirs-throttle", str(SLOW)]
    executed = tool(broker, "reassign-partitions", *where, "--execute", *slowly)
    assert executed.code == 0, executed.err
    assert executed.out.splitlines()[-1] == (
        f"Successfully started moving log directory to {moving.root / target} for replica by-tool-0 with broker 1 "
    )
    assert f'"log_dirs":["{moving.root / source}"]' in executed.out
    assert throttle(admin) == str(SLOW)
    verified = tool(broker, "reassign-partitions", *where, "--verify")
    assert "Reassignment of replica by-tool-0-1 is still in progress." in verified.out
    assert throttle(admin) == str(SLOW)
    limit_moves(admin, None)
    moving.arrive_in(target)
    verified = tool(broker, "reassign-partitions", *where, "--verify")
    assert "Reassignment of replica by-tool-0-1 completed successfully." in verified.out
    assert throttle(admin) is None


def test_the_tool_calls_a_move_off(broker: BrokerProcess, admin: Admin) -> None:
    moving = Moving(broker, admin, "called-off").create()
    count = moving.fill(4 * SEGMENT_BYTES)
    source = moving.place
    where = plan(moving, next(name for name in NAMES if name != source))
    slowly = ["--replica-alter-log-dirs-throttle", str(SLOW)]
    assert tool(broker, "reassign-partitions", *where, "--execute", *slowly).code == 0
    assert moving.target
    cancelled = tool(broker, "reassign-partitions", *where, "--cancel")
    assert cancelled.code == 0, cancelled.err
    assert f"Successfully started moving log directory to {moving.root / source} for" in cancelled.out
    moving.arrive_in(source)
    assert throttle(admin) is None
    assert offsets_of(broker, moving.topic) == list(range(count))
    verified = tool(broker, "reassign-partitions", *where, "--verify")
    assert "completed successfully" not in verified.out.splitlines()[-1]
    again = tool(broker, "reassign-partitions", *where, "--cancel")
    assert "None of the specified partition moves are active." in again.out
