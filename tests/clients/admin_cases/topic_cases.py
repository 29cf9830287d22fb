"""Topics: made, listed, described, given more partitions, deleted."""

from levada.client.admin import Admin, ConfigSource, NewPartitions, NewTopic, TopicId
from levada.client.admin.kinds import AclOperation
from levada.client.errors import (
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidTopic,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from levada.model.error_codes import ErrorCode
from tests.clients.admin_cases.case import Cases, Target, create, known, until

TOPIC_CASES = Cases()


@TOPIC_CASES
async def a_created_topic_is_told_as_it_was_made(admin: Admin, target: Target) -> None:
    name = target.fresh("made")
    wanted = NewTopic(name, partitions=3, replication_factor=1, configs={"retention.ms": "86400000"})
    created = (await admin.create_topics([wanted]))[name]
    assert (created.name, created.partitions, created.replication_factor) == (name, 3, 1)
    assert created.configs is not None
    assert created.configs["retention.ms"].value == "86400000"
    assert created.configs["retention.ms"].source == ConfigSource.TOPIC
    assert created.configs["cleanup.policy"].source == ConfigSource.DEFAULT

    await known(admin, name)
    listing = (await admin.list_topics())[name]
    assert (listing.name, listing.topic_id, listing.is_internal) == (name, created.topic_id, False)

    described = (await admin.describe_topics([name]))[name]
    assert (described.name, described.topic_id, described.is_internal) == (name, created.topic_id, False)
    assert described.authorized_operations is None
    assert [one.index for one in described.partitions] == [0, 1, 2]
    for one in described.partitions:
        assert one.leader == target.broker_id
        assert one.replicas == one.in_sync == (target.broker_id,)
        assert one.offline == ()
        assert one.leader_epoch == 0


@TOPIC_CASES
async def topics_that_cannot_be_made_fail_each_for_itself(admin: Admin, target: Target) -> None:
    there = await create(admin, target, "there")
    good, greedy, odd, none = (target.fresh(what) for what in ("good", "greedy", "odd", "none"))
    created = await admin.create_topics(
        [
            NewTopic(good, 1, 1),
            NewTopic(there, 1, 1),
            NewTopic("no such/name", 1, 1),
            NewTopic(greedy, 1, 7),
            NewTopic(odd, 1, 1, configs={"retention.ms": "soon"}),
            NewTopic(none, 0, 1),
        ]
    )
    assert list(created.done) == [good]
    assert {name: type(error) for name, error in created.errors.items()} == {
        there: TopicAlreadyExists,
        "no such/name": InvalidTopic,
        greedy: InvalidReplicationFactor,
        odd: InvalidConfig,
        none: InvalidPartitions,
    }
    assert there in str(created.errors[there])
    await known(admin, good)
    assert not {greedy, odd, none} & set(await admin.list_topics())


@TOPIC_CASES
async def what_is_only_validated_is_not_made(admin: Admin, target: Target) -> None:
    name = target.fresh("checked")
    created = await admin.create_topics([NewTopic(name, 2, 1)], validate_only=True)
    assert created[name].partitions == 2
    assert name not in await admin.list_topics()


@TOPIC_CASES
async def a_topic_may_be_left_to_the_brokers_defaults_or_placed_by_hand(admin: Admin, target: Target) -> None:
    plain, placed = target.fresh("plain"), target.fresh("placed")
    assignments = {0: [target.broker_id], 1: [target.broker_id]}
    created = await admin.create_topics([NewTopic(plain), NewTopic(placed, assignments=assignments)])
    assert (created[plain].partitions, created[plain].replication_factor) == (1, 1)
    assert (created[placed].partitions, created[placed].replication_factor) == (2, 1)


@TOPIC_CASES
async def topics_are_described_by_name_and_by_id_and_unknown_ones_fail_alone(admin: Admin, target: Target) -> None:
    name = await create(admin, target, "known", 2)
    topic_id = (await admin.list_topics())[name].topic_id
    assert topic_id is not None
    nowhere, unknown = target.fresh("nowhere"), TopicId(b"there is no such")
    found = await admin.describe_topics([name, nowhere, topic_id, unknown])
    assert list(found) == [name, nowhere, topic_id, unknown]
    assert found[name].topic_id == topic_id
    assert found[topic_id].name == name
    assert len(found[topic_id].partitions) == 2
    assert {key: (type(error), error.code) for key, error in found.errors.items()} == {
        nowhere: (UnknownTopicOrPartition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        unknown: (UnknownTopicId, ErrorCode.UNKNOWN_TOPIC_ID),
    }
    # A question does not make a topic, whatever auto.create.topics.enable says.
    assert nowhere not in await admin.list_topics()


@TOPIC_CASES
async def many_partitions_are_described_in_pages(admin: Admin, target: Target) -> None:
    names = [await create(admin, target, "paged", count) for count in (5, 1, 7)]
    found = await admin.describe_topics([*names, "paged-unknown"], partitions_per_page=3)
    counts = {name: [one.index for one in found[name].partitions] for name in names}
    assert counts == {name: list(range(count)) for name, count in zip(names, (5, 1, 7))}
    assert list(found.errors) == ["paged-unknown"]


@TOPIC_CASES
async def authorized_operations_are_told_when_asked_for(admin: Admin, target: Target) -> None:
    name = await create(admin, target, "allowed")
    topic_id = (await admin.list_topics())[name].topic_id
    assert topic_id is not None
    found = await admin.describe_topics([name, topic_id], include_authorized_operations=True)
    for described in found.values():
        assert described.authorized_operations is not None
        assert {AclOperation.READ, AclOperation.DELETE} <= described.authorized_operations


@TOPIC_CASES
async def internal_topics_are_listed_when_asked_for(admin: Admin, target: Target) -> None:
    # The first question about a group makes its topic.
    await admin.list_group_offsets([target.fresh("asked")])
    assert "__consumer_offsets" not in await admin.list_topics()
    listing = (await admin.list_topics(include_internal=True))["__consumer_offsets"]
    assert listing.is_internal


@TOPIC_CASES
async def topics_grow_and_do_not_shrink(admin: Admin, target: Target) -> None:
    grown, checked, same = [await create(admin, target, what, 2) for what in ("grown", "checked", "same")]
    outcomes = await admin.create_partitions(
        {grown: NewPartitions(4, [[target.broker_id], [target.broker_id]]), same: 2, "grown-unknown": 3}
    )
    assert list(outcomes.done) == [grown]
    assert {name: type(error) for name, error in outcomes.errors.items()} == {
        same: InvalidPartitions,
        "grown-unknown": UnknownTopicOrPartition,
    }
    (await admin.create_partitions({checked: 5}, validate_only=True)).raise_any()

    async def have_grown() -> bool:
        found = await admin.describe_topics([grown, checked, same])
        return [len(one.partitions) for one in found.values()] == [4, 2, 2]

    await until("one topic has grown, and no other", have_grown)


@TOPIC_CASES
async def topics_are_deleted_by_name_and_by_id(admin: Admin, target: Target) -> None:
    by_name, by_id, kept = [await create(admin, target, what) for what in ("by-name", "by-id", "kept")]
    topic_id = (await admin.list_topics())[by_id].topic_id
    assert topic_id is not None
    unknown = TopicId(b"there is no such")
    deleted = await admin.delete_topics([by_name, topic_id, "deleted-unknown", unknown])
    assert list(deleted.done) == [by_name, topic_id]
    assert {key: error.code for key, error in deleted.errors.items()} == {
        "deleted-unknown": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        unknown: ErrorCode.UNKNOWN_TOPIC_ID,
    }

    async def are_gone() -> bool:
        left = await admin.list_topics()
        return kept in left and not {by_name, by_id} & set(left)

    await until("two topics are gone, and no other", are_gone)
