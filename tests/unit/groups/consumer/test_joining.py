"""Members come, share the partitions, and are told what they need to know."""

from levada.groups.consumer import ConsumerGroupSettings, ConsumerGroupState, Interval
from levada.groups.consumer.member import MemberState
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer.harness import GROUP, Coordinator

AT_ONCE = Interval(0, 0, 15_000)


def coordinator_with(partitions: int, settings: ConsumerGroupSettings | None = None) -> Coordinator:
    coordinator = Coordinator(settings or ConsumerGroupSettings(assignment_interval=AT_ONCE))
    coordinator.topic("a", partitions)
    return coordinator


def test_the_first_member_gets_everything_at_once() -> None:
    coordinator = coordinator_with(3)
    reply = coordinator.beat("m", 0, "a")
    assert (reply.member_epoch, reply.heartbeat_interval_ms) == (2, 5_000)
    assert coordinator.assigned(reply) == {"a": [0, 1, 2]}
    assert coordinator.group.state is ConsumerGroupState.STABLE


def test_a_partition_is_handed_out_when_its_former_owner_has_given_it_up() -> None:
    coordinator = coordinator_with(4)
    coordinator.beat("m", 0, "a")
    assert coordinator.assigned(coordinator.beat("n", 0, "a")) == {}
    assert coordinator.group.members["n"].state is MemberState.UNRELEASED_PARTITIONS
    asked = coordinator.beat("m", 2)
    assert (asked.member_epoch, coordinator.assigned(asked)) == (2, {"a": [0, 1]})
    assert coordinator.group.state == ConsumerGroupState.RECONCILING
    assert coordinator.assigned(coordinator.beat("n", 3)) is None
    still_there = coordinator.beat("m", 2, owned={"a": [0, 1, 2]})
    assert still_there.member_epoch == 2
    given_up = coordinator.beat("m", 2, owned={"a": [0, 1]})
    assert given_up.member_epoch == 3
    assert coordinator.assigned(coordinator.beat("n", 3)) == {"a": [2, 3]}
    described = coordinator.groups.describe(GROUP, coordinator.now_ms)
    assert described.group_state == "Stable"


def test_the_reply_speaks_of_the_assignment_only_when_there_is_something_to_say() -> None:
    coordinator = coordinator_with(2)
    coordinator.beat("m", 0, "a")
    assert coordinator.beat("m", 2).assignment is None
    assert coordinator.beat("m", 2, owned={"a": [0, 1]}).assignment is None
    everything = coordinator.beat("m", 2, "a", owned={"a": [0, 1]}, rebalance_timeout_ms=1_000)
    assert coordinator.assigned(everything) == {"a": [0, 1]}
    again = coordinator.beat("m", 0, "a", rebalance_timeout_ms=1_000)
    assert (again.member_epoch, coordinator.assigned(again)) == (2, {"a": [0, 1]})


def test_a_heartbeat_that_changes_nothing_writes_nothing() -> None:
    coordinator = coordinator_with(2)
    coordinator.beat("m", 0, "a")
    coordinator.beat("m", 2)
    assert coordinator.written == []


def test_a_group_has_a_maximum_size() -> None:
    coordinator = coordinator_with(2, ConsumerGroupSettings(max_size=2))
    coordinator.beat("m", 0, "a")
    coordinator.beat("n", 0, "a")
    refused = coordinator.beat("o", 0, "a")
    assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert refused.error_message == "The consumer group has reached its maximum capacity of 2 members."
    assert coordinator.beat("n", 0, "a").error_code == ErrorCode.NONE


def test_a_changed_subscription_gives_the_group_a_new_epoch_and_the_old_topic_back() -> None:
    coordinator = coordinator_with(2)
    coordinator.topic("b", 1)
    coordinator.beat("m", 0, "a")
    changed = coordinator.beat("m", 2, "b")
    assert (changed.member_epoch, coordinator.assigned(changed)) == (2, {})
    taken = coordinator.beat("m", 2, owned={})
    assert (taken.member_epoch, coordinator.assigned(taken)) == (3, {"b": [0]})


def test_the_assignor_with_most_votes_is_used() -> None:
    coordinator = coordinator_with(3)
    coordinator.beat("m", 0, "a", server_assignor="range")
    assert described_assignor(coordinator) == "range"
    coordinator.beat("n", 0, "a", server_assignor="uniform")
    assert described_assignor(coordinator) == "uniform"
    coordinator.beat("o", 0, "a", server_assignor="range")
    assert described_assignor(coordinator) == "range"


def test_without_votes_the_first_configured_assignor_is_used() -> None:
    coordinator = coordinator_with(3, ConsumerGroupSettings(assignors=("range", "uniform")))
    coordinator.beat("m", 0, "a")
    assert described_assignor(coordinator) == "range"


def test_members_that_come_in_a_short_time_share_one_assignment() -> None:
    coordinator = coordinator_with(4, ConsumerGroupSettings())
    coordinator.beat("m", 0, "a")
    coordinator.beat("n", 0, "a")
    assert coordinator.group.state is ConsumerGroupState.ASSIGNING
    assert (coordinator.group.epoch, coordinator.group.assignment_epoch) == (3, 2)
    coordinator.advance(999)
    assert coordinator.beat("m", 2).assignment is None
    coordinator.advance(1)
    assert coordinator.assigned(coordinator.beat("m", 2)) == {"a": [0, 1]}
    assert coordinator.group.assignment_epoch == 3


def test_a_clock_that_was_set_back_keeps_no_group_from_its_next_assignment() -> None:
    coordinator = coordinator_with(4, ConsumerGroupSettings())
    coordinator.beat("m", 0, "a")
    coordinator.now_ms -= 3_600_000
    coordinator.restart()
    coordinator.beat("n", 0, "a")
    assert coordinator.group.assignment_epoch == 3
    # From here on it is as always.
    coordinator.beat("o", 0, "a")
    assert coordinator.group.assignment_epoch == 3


def test_a_group_can_have_times_of_its_own_within_what_the_broker_allows() -> None:
    coordinator = coordinator_with(2, ConsumerGroupSettings())
    coordinator.configs[GROUP] = {
        "consumer.heartbeat.interval.ms": "7000",
        "consumer.session.timeout.ms": "50000",
        "consumer.assignment.interval.ms": "99999",
    }
    assert coordinator.beat("m", 0, "a").heartbeat_interval_ms == 7_000
    coordinator.beat("n", 0, "a")
    coordinator.advance(14_999)
    coordinator.beat("m", 2)
    assert coordinator.group.assignment_epoch == 2
    coordinator.advance(1)
    coordinator.beat("m", 2)
    assert coordinator.group.assignment_epoch == 3
    coordinator.advance(34_999)
    assert list(coordinator.group.members) == ["m", "n"]
    coordinator.advance(1)
    assert list(coordinator.group.members) == ["m"]


def test_settings_that_change_hold_from_the_next_heartbeat_on() -> None:
    coordinator = coordinator_with(2)
    coordinator.beat("m", 0, "a")
    coordinator.groups.reconfigure(ConsumerGroupSettings(heartbeat_interval=Interval(9_000, 5_000, 15_000)))
    assert coordinator.beat("m", 2).heartbeat_interval_ms == 9_000


def described_assignor(coordinator: Coordinator) -> str:
    return coordinator.groups.describe(GROUP, coordinator.now_ms).assignor_name
