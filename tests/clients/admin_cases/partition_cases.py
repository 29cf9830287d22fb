"""Partitions: their offsets, their old records, their leaders, and moves to other brokers and directories."""

from levada.client.admin import (
    HIGH_WATERMARK,
    Admin,
    ElectionType,
    IsolationLevel,
    ListedOffset,
    OffsetSpec,
    Replica,
)
from levada.client.errors import OffsetOutOfRange, PolicyViolation, UnknownTopicOrPartition
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from tests.clients.admin_cases.case import Cases, Target, create, until
from tests.clients.admin_cases.surroundings import open_transaction, produce

PARTITION_CASES = Cases()

TIMES = [1_700_000_000_000, 1_700_000_009_000, 1_700_000_005_000]


@PARTITION_CASES
async def offsets_are_found_by_their_place_and_by_time(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "offsets", 2, retention_ms="-1")
    full, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(target, topic, b"a", b"b", b"c", timestamps=TIMES)

    async def listed(partition: TopicPartition, spec: int) -> ListedOffset:
        return (await admin.list_offsets({partition: spec}))[partition]

    assert await listed(full, OffsetSpec.EARLIEST) == ListedOffset(0, -1, 0)
    assert await listed(full, OffsetSpec.LATEST) == ListedOffset(3, -1, 0)
    assert await listed(full, OffsetSpec.MAX_TIMESTAMP) == ListedOffset(1, TIMES[1], 0)
    assert await listed(full, OffsetSpec.EARLIEST_LOCAL) == ListedOffset(0, -1, 0)
    assert await listed(full, TIMES[0] + 1) == ListedOffset(1, TIMES[1], 0)
    assert await listed(full, TIMES[1] + 1) == ListedOffset(-1, -1, None)
    assert await listed(empty, OffsetSpec.LATEST) == ListedOffset(0, -1, 0)
    assert await listed(empty, OffsetSpec.MAX_TIMESTAMP) == ListedOffset(-1, -1, None)
    both = await admin.list_offsets({full: OffsetSpec.MAX_TIMESTAMP, empty: OffsetSpec.EARLIEST})
    assert [found.offset for found in both.values()] == [1, 0]


@PARTITION_CASES
async def the_end_for_readers_of_committed_records_is_before_an_open_transaction(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "stable")
    produce(target, topic, b"a", b"b")
    first = TopicPartition(topic, 0)
    with open_transaction(target, target.fresh("opener"), topic) as producer:
        ends = [
            (await admin.list_offsets({first: OffsetSpec.LATEST}, isolation_level=level))[first].offset
            for level in IsolationLevel
        ]
        producer.abort_transaction()
    assert ends == [3, 2]


@PARTITION_CASES
async def offsets_of_unknown_partitions_fail_alone_and_soon(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "half")
    known, beyond, nowhere = TopicPartition(topic, 0), TopicPartition(topic, 5), TopicPartition("half-unknown", 0)
    found = await admin.list_offsets(dict.fromkeys((known, beyond, nowhere), OffsetSpec.LATEST))
    assert found.done == {known: ListedOffset(0, -1, 0)}
    assert {key: type(error) for key, error in found.errors.items()} == dict.fromkeys(
        (beyond, nowhere), UnknownTopicOrPartition
    )
    assert "half-unknown" in str(found.errors[nowhere])


@PARTITION_CASES
async def records_are_deleted_up_to_an_offset(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "shortened", 3)
    some, all_, too_many = (TopicPartition(topic, number) for number in range(3))
    for partition in (some, all_, too_many):
        produce(target, topic, b"a", b"b", b"c", partition=partition.partition)
    deleted = await admin.delete_records({some: 2, all_: HIGH_WATERMARK, too_many: 4})
    assert deleted.done == {some: 2, all_: 3}
    assert [type(error) for error in deleted.errors.values()] == [OffsetOutOfRange]
    first = await admin.list_offsets(dict.fromkeys((some, all_, too_many), OffsetSpec.EARLIEST))
    assert [found.offset for found in first.values()] == [2, 3, 0]


@PARTITION_CASES
async def records_of_a_compacted_topic_are_not_deleted(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "compacted", cleanup_policy="compact")
    deleted = await admin.delete_records({TopicPartition(topic, 0): 0, TopicPartition("shortened-unknown", 0): 0})
    assert [type(error) for error in deleted.errors.values()] == [PolicyViolation, UnknownTopicOrPartition]


@PARTITION_CASES
async def an_election_that_is_not_needed_says_so(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "led", 2)
    partitions = [TopicPartition(topic, 0), TopicPartition(topic, 9), TopicPartition("led-unknown", 0)]
    for election_type in ElectionType:
        elected = await admin.elect_leaders(partitions, election_type=election_type)
        assert [error.code for error in elected.errors.values()] == [
            ErrorCode.ELECTION_NOT_NEEDED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
    assert len(await admin.elect_leaders()) == 0
    assert len(await admin.elect_leaders([])) == 0


@PARTITION_CASES.needing(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
async def partitions_are_reassigned(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "moved", 3)
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    moved = await admin.alter_partition_reassignments({first: [target.broker_id], second: None, third: [77]})
    assert list(moved.done) == [first]
    assert [error.code for error in moved.errors.values()] == [
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
    ]


@PARTITION_CASES.needing(ApiKey.LIST_PARTITION_REASSIGNMENTS)
async def moves_under_way_are_listed(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "still")
    assert await admin.list_partition_reassignments() == {}
    assert await admin.list_partition_reassignments([TopicPartition(topic, 0)]) == {}


@PARTITION_CASES
async def log_directories_hold_replicas(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "held", 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(target, topic, b"a" * 1_000)

    async def are_there() -> bool:
        (directory,) = (await admin.describe_log_dirs())[target.broker_id].values()
        return {first, second} <= set(directory.replicas)

    await until("both replicas have a directory", are_there)
    (directory,) = (await admin.describe_log_dirs())[target.broker_id].values()
    assert directory.error is None
    assert directory.replicas[first].size_bytes > 1_000
    assert directory.replicas[second].size_bytes == 0
    assert not directory.replicas[first].is_future
    assert directory.total_bytes is not None
    assert directory.usable_bytes is not None
    assert 0 < directory.usable_bytes < directory.total_bytes
    some = await admin.describe_log_dirs([target.broker_id], partitions=[second])
    assert set(some[target.broker_id][directory.path].replicas) == {second}
    places = await admin.describe_replica_log_dirs(
        [Replica(topic, 0, target.broker_id), Replica("held-unknown", 0, target.broker_id)]
    )
    assert [(place.path, place.offset_lag, place.future_path) for place in places.values()] == [
        (directory.path, 0, None),
        (None, None, None),
    ]


@PARTITION_CASES
async def a_broker_that_is_not_there_fails_alone(admin: Admin, target: Target) -> None:
    found = await admin.describe_log_dirs([target.broker_id, 77])
    assert list(found.done) == [target.broker_id]
    assert "broker 77" in str(found.errors[77])


@PARTITION_CASES.needing(ApiKey.ALTER_REPLICA_LOG_DIRS)
async def replicas_are_moved_to_directories_that_exist(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "carried")
    (directory,) = (await admin.describe_log_dirs())[target.broker_id]
    here, away = Replica(topic, 0, target.broker_id), Replica(topic, 5, target.broker_id)
    moved = await admin.alter_replica_log_dirs({here: directory, away: "/no/such/directory"})
    assert list(moved.done) == [here]
    assert [error.code for error in moved.errors.values()] == [ErrorCode.LOG_DIR_NOT_FOUND]
