"""Groups change their protocol while their members stay."""

import pytest

from levada.groups.consumer import ConsumerGroupSettings, ConsumerGroupState, Interval, MigrationPolicy
from levada.groups.group import ClassicGroupState
from levada.groups.records import GroupMetadataKey
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_protocol import AssignedTopic, ConsumerProtocolAssignment, encode_assignment
from tests.unit.groups.consumer.classic_harness import (
    SESSION_MS,
    assigned,
    assignment,
    beat,
    classic_group,
    join,
    leave,
    sync,
)
from tests.unit.groups.consumer.harness import GROUP, Coordinator, state_of

CUSTOM_ASSIGNOR = (
    "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor "
    "before re-attempting the upgrade."
)

AT_ONCE = Interval(0, 0, 15_000)


def coordinator_with(**fields: object) -> Coordinator:
    settings = {"assignment_interval": AT_ONCE, **fields}
    coordinator = Coordinator(ConsumerGroupSettings(**settings))  # type: ignore[arg-type]
    coordinator.topic("a", 4)
    return coordinator


@pytest.fixture
def coordinator() -> Coordinator:
    return coordinator_with()


def test_an_empty_classic_group_makes_way(coordinator: Coordinator) -> None:
    group = classic_group(coordinator, {}, "a")
    group.state = ClassicGroupState.EMPTY
    assert coordinator.assigned(coordinator.beat("m", 0, "a")) == {"a": [0, 1, 2, 3]}
    assert GROUP not in coordinator.classic
    assert coordinator.written[0].key == GroupMetadataKey(group=GROUP)


def test_a_classic_group_is_brought_over_by_the_first_member_of_the_new_protocol(coordinator: Coordinator) -> None:
    classic_group(coordinator, {"c": assignment({"a": [0, 1]}), "d": assignment({"a": [2, 3]})}, "a")
    joined = coordinator.beat("m", 0, "a")
    assert (joined.member_epoch, coordinator.assigned(joined)) == (5, {})
    assert GROUP not in coordinator.classic
    group = coordinator.group
    assert (group.epoch, group.assignment_epoch, group.classic_count) == (5, 5, 2)
    brought = group.members["c"]
    assert (brought.epoch, brought.rack_id, brought.topic_names) == (4, "rack", ("a",))
    assert brought.assigned == {coordinator.topic_id("a"): {0: 4, 1: 4}}
    assert list(brought.classic_protocols) == ["range", "sticky"]
    described = coordinator.groups.describe(GROUP, coordinator.now_ms)
    assert [member.member_type for member in described.members] == [0, 0, 1]
    before = state_of(coordinator.groups)
    coordinator.restart()
    assert state_of(coordinator.groups) == before


def test_a_topic_that_an_assignment_names_twice_is_brought_over_whole(coordinator: Coordinator) -> None:
    topics = [AssignedTopic(topic="a", partitions=[index]) for index in (2, 0)]
    data = encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics))
    classic_group(coordinator, {"c": data}, "a")
    coordinator.beat("m", 0, "a")
    (part,) = coordinator.group.members["c"].assigned.values()
    assert sorted(part) == [0, 2]


def test_its_members_keep_their_session_timeouts(coordinator: Coordinator) -> None:
    classic_group(coordinator, {"c": assignment({"a": [0]})}, "a")
    coordinator.beat("m", 0, "a")
    coordinator.advance(SESSION_MS - 1)
    assert "c" in coordinator.group.members
    coordinator.advance(1)
    assert list(coordinator.group.members) == ["m"]


def test_topics_that_are_gone_are_not_brought_over(coordinator: Coordinator) -> None:
    classic_group(coordinator, {"c": assignment({"a": [0], "gone": [0]}), "d": b""}, "a", "gone")
    coordinator.beat("m", 0, "a")
    assert coordinator.group.members["c"].assigned == {coordinator.topic_id("a"): {0: 4}}
    assert coordinator.group.members["d"].assigned == {}


@pytest.mark.parametrize(
    ("part", "type_", "fields", "why"),
    [
        (assignment({}), "consumer", {"migration_policy": MigrationPolicy.DISABLED}, "online upgrade is disabled."),
        (assignment({}), "consumer", {"migration_policy": MigrationPolicy.DOWNGRADE}, "online upgrade is disabled."),
        (assignment({}), "connect", {}, "the group does not use the consumer embedded protocol."),
        (b"x", "consumer", {}, "the embedded consumer protocol is malformed."),
        (
            assignment({}, b"secret"),
            "consumer",
            {},
            CUSTOM_ASSIGNOR,
        ),
    ],
)
def test_a_group_that_cannot_be_brought_over_stays_as_it_is(
    part: bytes, type_: str, fields: dict[str, object], why: str
) -> None:
    coordinator = coordinator_with(**fields)
    classic_group(coordinator, {"c": part}, "a", type_=type_)
    refused = coordinator.beat("m", 0, "a")
    assert refused.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert refused.error_message == f"Cannot upgrade classic group {GROUP} to consumer group because {why}"
    assert not coordinator.groups.groups
    assert coordinator.groups.describe(GROUP, 0).error_message == f"Group {GROUP} is not a consumer group."
    for epoch in (5, -1):
        assert coordinator.beat("m", epoch).error_message == f"Group {GROUP} is not a consumer group."


def test_a_group_larger_than_allowed_is_not_brought_over() -> None:
    coordinator = coordinator_with(max_size=1)
    classic_group(coordinator, {"c": b"", "d": b""}, "a")
    refused = coordinator.beat("m", 0, "a")
    assert refused.error_message is not None
    assert refused.error_message.endswith("because the group size exceeds the consumer group maximum size.")


def test_an_assignment_that_gives_a_partition_to_two_is_not_brought_over(coordinator: Coordinator) -> None:
    classic_group(coordinator, {"c": assignment({"a": [0]}), "d": assignment({"a": [0]})}, "a")
    assert coordinator.beat("m", 0, "a").error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_group_that_never_had_a_generation_is_not_brought_over(coordinator: Coordinator) -> None:
    group = classic_group(coordinator, {"c": b""}, "a")
    group.protocol_name, group.state = None, ClassicGroupState.PREPARING_REBALANCE
    assert coordinator.beat("m", 0, "a").error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_group_goes_back_when_the_last_member_of_the_new_protocol_leaves(coordinator: Coordinator) -> None:
    classic_group(coordinator, {"c": assignment({"a": [0, 1, 2, 3]})}, "a")
    coordinator.beat("m", 0, "a")
    assert beat(coordinator, "c", 4) == ErrorCode.REBALANCE_IN_PROGRESS
    join(coordinator, "c", "a", owned={"a": [0, 1]})
    coordinator.beat("m", -1)
    assert not coordinator.groups.groups
    (group,) = coordinator.downgrades
    assert (group.state, group.generation, group.protocol_type, group.leader) == (
        ClassicGroupState.STABLE,
        5,
        "consumer",
        "c",
    )
    assert group.subscribed_topics == frozenset({"a"})
    member = group.members["c"]
    assert (member.session_timeout_ms, assigned(member.assignment)) == (SESSION_MS, {"a": [0, 1]})
    coordinator.restart()
    assert not coordinator.groups.groups
    # A member that has not joined again is of the past for a coordinator that does not know of the rebalance.
    assert coordinator.classic[GROUP].generation == 6


def test_it_goes_back_too_when_that_members_session_ends(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    join(coordinator, "c", "a")
    sync(coordinator, "c", 3)
    for _ in range(9):
        coordinator.advance(5_000)
        if coordinator.groups.groups:
            beat(coordinator, "c", 3)
    assert not coordinator.groups.groups
    assert coordinator.classic[GROUP].generation == 3


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_it_does_not_go_back_where_that_is_not_allowed(policy: MigrationPolicy) -> None:
    coordinator = coordinator_with(migration_policy=MigrationPolicy.BIDIRECTIONAL)
    coordinator.beat("m", 0, "a")
    join(coordinator, "c", "a")
    coordinator.groups.reconfigure(ConsumerGroupSettings(migration_policy=policy))
    coordinator.beat("m", -1)
    assert list(coordinator.group.members) == ["c"]


def test_a_group_larger_than_a_classic_one_may_be_does_not_go_back() -> None:
    coordinator = coordinator_with(max_classic_size=1)
    coordinator.beat("m", 0, "a")
    join(coordinator, "c", "a")
    join(coordinator, "d", "a")
    coordinator.beat("m", -1)
    assert list(coordinator.group.members) == ["c", "d"]


def test_a_group_that_all_leave_at_once_stays_a_consumer_group(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a")
    join(coordinator, "c", "a")
    assert leave(coordinator, ("m", None), ("c", None)) == [ErrorCode.NONE, ErrorCode.NONE]
    assert coordinator.group.state is ConsumerGroupState.EMPTY


def test_the_last_static_member_takes_its_group_back_with_it(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a", instance_id="one")
    joined = join(coordinator, "", "a", instance="one")
    assert (joined.error_code, joined.generation_id) == (ErrorCode.NONE, 2)
    assert not coordinator.groups.groups
    (group,) = coordinator.downgrades
    (member,) = group.members.values()
    assert (member.member_id, member.instance_id) == (joined.member_id, "one")
    assert assigned(member.assignment) == {"a": [0, 1, 2, 3]}
    coordinator.restart()
    assert not coordinator.groups.groups
    # It must join again, if only to hear that it leads: until then no member would look for new topics.
    assert coordinator.classic[GROUP].generation == joined.generation_id + 1


def test_it_takes_it_back_while_others_wait_for_what_it_had(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "a", instance_id="one")
    assert join(coordinator, "c", "a").generation_id == 3
    assert assigned(sync(coordinator, "c", 3).assignment) == {}
    assert coordinator.assigned(coordinator.beat("m", 2, instance_id="one")) == {"a": [0, 1]}
    joined = join(coordinator, "", "a", instance="one")
    (group,) = coordinator.downgrades
    parts = [assigned(member.assignment) for member in group.members.values()]
    assert sorted(index for part in parts for index in part["a"]) == [0, 1, 2, 3]
    assert joined.generation_id == group.generation == 3


def test_a_group_brought_over_before_its_rebalance_is_over_assigns_what_that_was_to_assign(
    coordinator: Coordinator,
) -> None:
    coordinator.beat("m", 0, "a")
    joined = join(coordinator, "", "a", instance="one")
    assert coordinator.assigned(coordinator.beat("m", 2)) == {"a": [0, 1]}
    coordinator.beat("m", 3, owned={"a": [0, 1]})
    joined = join(coordinator, joined.member_id, "a", instance="one")
    coordinator.beat("m", -1)
    (group,) = coordinator.downgrades
    assert assigned(group.members[joined.member_id].assignment) == {"a": [2, 3]}
    coordinator.topic("a", 5)
    # Its subscription is its predecessor's, so that alone is no reason to assign.
    brought = coordinator.beat("n", 0, "a", instance_id="one")
    assert coordinator.assigned(brought) == {"a": [0, 1, 2, 3, 4]}


def test_it_takes_it_back_though_it_wants_something_else(coordinator: Coordinator) -> None:
    coordinator.topic("b", 1)
    coordinator.beat("m", 0, "a", instance_id="one")
    join(coordinator, "", "b", instance="one")
    (group,) = coordinator.downgrades
    assert group.subscribed_topics == frozenset({"b"})
