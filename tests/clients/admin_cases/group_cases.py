"""Groups of both protocols: listed, described, their offsets, their members."""

from collections.abc import Mapping

from levada.client.admin import Admin, GroupState, GroupType
from levada.client.errors import GroupNotEmpty, GroupNotFound, MembershipLost, UnknownTopicOrPartition
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from tests.clients.admin_cases.case import Cases, Target, create, until
from tests.clients.admin_cases.surroundings import member

GROUP_CASES = Cases()


@GROUP_CASES
async def offsets_of_groups_are_altered_and_listed(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "read", 3)
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    one, other = target.fresh("reader"), target.fresh("reader")
    noted = OffsetAndMetadata(7, "half way", 0)
    nowhere = TopicPartition("read-unknown", 0)
    altered = await admin.alter_group_offsets(one, {first: 5, second: noted, nowhere: 1})
    assert list(altered.done) == [first, second]
    assert [type(error) for error in altered.errors.values()] == [UnknownTopicOrPartition]
    (await admin.alter_group_offsets(other, {third: 1})).raise_any()

    every = await admin.list_group_offsets([one, other], require_stable=True)
    assert every[one] == {first: OffsetAndMetadata(5), second: noted}
    assert every[other] == {third: OffsetAndMetadata(1)}
    some = await admin.list_group_offsets({one: [first, third], other: None})
    assert some[one] == {first: OffsetAndMetadata(5), third: None}
    assert some[other] == every[other]
    assert (await admin.list_group_offsets(["reader-unknown"]))["reader-unknown"] == {}


@GROUP_CASES
async def offsets_of_a_group_are_deleted(admin: Admin, target: Target) -> None:
    topic, group = await create(admin, target, "forgotten", 2), target.fresh("forgetful")
    first, second, nowhere = TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition("forgotten-unknown", 0)
    (await admin.alter_group_offsets(group, {first: 5, second: 6})).raise_any()
    deleted = await admin.delete_group_offsets(group, [first, nowhere])
    assert list(deleted.done) == [first]
    assert [type(error) for error in deleted.errors.values()] == [UnknownTopicOrPartition]
    assert (await admin.list_group_offsets([group]))[group] == {second: OffsetAndMetadata(6)}
    unknown = await admin.delete_group_offsets("forgetful-unknown", [first])
    assert [type(error) for error in unknown.errors.values()] == [GroupNotFound]


@GROUP_CASES
async def groups_without_members_are_listed_described_and_deleted(admin: Admin, target: Target) -> None:
    topic, group = await create(admin, target, "simple"), target.fresh("simple")
    (await admin.alter_group_offsets(group, {TopicPartition(topic, 0): 5})).raise_any()
    listing = next(one for one in await admin.list_groups() if one.group_id == group)
    assert (listing.protocol_type, listing.type, listing.state) == ("", GroupType.CLASSIC, GroupState.EMPTY)
    assert listing.is_simple
    described = await admin.describe_consumer_groups([group, "simple-unknown"])
    assert described[group].state == GroupState.EMPTY
    assert described[group].members == ()
    assert described[group].coordinator == target.broker_id
    assert described[group].is_simple
    assert [type(error) for error in described.errors.values()] == [GroupNotFound]
    deleted = await admin.delete_groups([group, "simple-unknown"])
    assert list(deleted.done) == [group]
    assert [type(error) for error in deleted.errors.values()] == [GroupNotFound]
    assert group not in [one.group_id for one in await admin.list_groups()]


@GROUP_CASES
async def a_classic_group_is_described_with_its_members(admin: Admin, target: Target) -> None:
    topic, group = await create(admin, target, "shared", 2), target.fresh("classic")
    settings = {"client.id": "worker", "group.instance.id": "desk-1", "partition.assignment.strategy": "range"}
    with member(target, group, topic, settings):
        await until("the group is stable", lambda: is_in(admin, group, GroupState.STABLE))
        found = (await admin.describe_consumer_groups([group], include_authorized_operations=True))[group]
        assert (found.type, found.state, found.protocol_type) == (GroupType.CLASSIC, GroupState.STABLE, "consumer")
        assert found.assignor == "range"
        assert found.coordinator == target.broker_id
        assert found.authorized_operations
        (only,) = found.members
        assert (only.client_id, only.group_instance_id) == ("worker", "desk-1")
        assert only.member_id
        assert only.host
        assert only.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
        assert only.metadata
        assert only.target_assignment is None
        assert found == (await admin.describe_classic_groups([group], include_authorized_operations=True))[group]


@GROUP_CASES
async def a_group_of_the_new_protocol_is_described_with_its_members(admin: Admin, target: Target) -> None:
    topic, group = await create(admin, target, "shared", 2), target.fresh("modern")
    with member(target, group, topic, {"group.protocol": "consumer", "client.id": "worker"}):
        await until("the group is stable", lambda: is_in(admin, group, GroupState.STABLE))
        found = (await admin.describe_consumer_groups([group], include_authorized_operations=True))[group]
        assert (found.type, found.state, found.protocol_type) == (GroupType.CONSUMER, GroupState.STABLE, "consumer")
        assert found.assignor == "uniform"
        assert found.group_epoch is not None
        assert found.group_epoch == found.target_assignment_epoch
        assert found.authorized_operations
        (only,) = found.members
        assert (only.client_id, only.group_instance_id) == ("worker", None)
        assert sorted(only.assignment) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
        assert only.target_assignment is not None
        assert sorted(only.target_assignment) == sorted(only.assignment)
        assert only.member_epoch == found.group_epoch
        assert only.speaks_consumer_protocol is True
        assert only.subscribed_topics == (topic,)
        classic = await admin.describe_classic_groups([group])
        assert classic.errors or classic[group].state == GroupState.DEAD


@GROUP_CASES
async def groups_are_listed_by_state_and_type(admin: Admin, target: Target) -> None:
    topic = await create(admin, target, "sorted")
    simple, classic, modern = (target.fresh(what) for what in ("simple", "classic", "modern"))
    (await admin.alter_group_offsets(simple, {TopicPartition(topic, 0): 5})).raise_any()
    with member(target, classic, topic), member(target, modern, topic, {"group.protocol": "consumer"}):

        async def names(**filters: list[str]) -> set[str]:
            listed = {one.group_id for one in await admin.list_groups(**filters)}  # type: ignore[arg-type]
            return listed & {simple, classic, modern}

        await until("both are stable", lambda: both_stable(admin, classic, modern))
        assert await names() == {simple, classic, modern}
        assert await names(states=["stable"]) == {classic, modern}
        assert await names(states=[GroupState.EMPTY]) == {simple}
        assert await names(types=[GroupType.CONSUMER]) == {modern}
        assert await names(types=["classic"], states=[GroupState.STABLE]) == {classic}
        assert await names(protocol_types=["consumer"]) == {classic, modern}


@GROUP_CASES
async def a_group_with_members_keeps_its_offsets_and_itself(admin: Admin, target: Target) -> None:
    topic, group = await create(admin, target, "busy"), target.fresh("busy")
    first = TopicPartition(topic, 0)
    (await admin.alter_group_offsets(group, {first: 0})).raise_any()
    with member(target, group, topic):
        await until("the group is stable", lambda: is_in(admin, group, GroupState.STABLE))
        altered = await admin.alter_group_offsets(group, {first: 5})
        assert [type(error) for error in altered.errors.values()] == [MembershipLost]
        deleted = await admin.delete_group_offsets(group, [first])
        assert [error.code for error in deleted.errors.values()] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
        gone = await admin.delete_groups([group])
        assert [type(error) for error in gone.errors.values()] == [GroupNotEmpty]
    assert (await admin.list_group_offsets([group]))[group] == {first: OffsetAndMetadata(0)}


@GROUP_CASES
async def members_are_removed_by_instance_and_all_at_once(admin: Admin, target: Target) -> None:
    topic, group = await create(admin, target, "left", 2), target.fresh("left")
    # Members that have stopped without a word: none comes back while the session lasts.
    settings = {"session.timeout.ms": 45_000, "partition.assignment.strategy": "range"}
    with member(target, group, topic, {**settings, "group.instance.id": "desk-1"}):
        await until("the group is stable", lambda: is_in(admin, group, GroupState.STABLE))
    # A static member does not leave when it closes.
    (left,) = (await admin.describe_consumer_groups([group]))[group].members
    assert left.group_instance_id == "desk-1"
    removed = await admin.remove_members_from_group(group, ["desk-1", "desk-9"], reason="moved house")
    assert list(removed.done) == ["desk-1"]
    assert [error.code for error in removed.errors.values()] == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert (await admin.describe_consumer_groups([group]))[group].members == ()

    with member(target, group, topic, {**settings, "group.instance.id": "desk-2"}):
        await until("the group is stable", lambda: is_in(admin, group, GroupState.STABLE))
    everyone = await admin.remove_members_from_group(group)
    assert list(everyone.done) == ["desk-2"]
    assert (await admin.describe_consumer_groups([group]))[group].state == GroupState.EMPTY


async def is_in(admin: Admin, group: str, state: GroupState) -> bool:
    found = await admin.describe_consumer_groups([group])
    return group in found.done and found[group].state == state and len(found[group].members) == 1


async def both_stable(admin: Admin, *groups: str) -> bool:
    found = await admin.describe_consumer_groups(groups)
    states: Mapping[str, GroupState] = {group: one.state for group, one in found.done.items()}
    return all(states.get(group) == GroupState.STABLE for group in groups)
