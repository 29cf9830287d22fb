"""How long offsets are kept, and who may delete them or their group."""

from collections.abc import Callable
from typing import Any

import pytest

from levada.groups import ClassicGroupState, CommittedOffset, GroupSettings, commit_record, upkeep
from levada.groups.records import GroupMetadataKey
from levada.groups.upkeep import CHORE_SIZE, PORTION_SIZE
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from tests.unit.groups.harness import GROUP, Coordinator
from tests.work import instructions

RETENTION_MS, CHECK_MS = 3_600_000, 60_000
SETTINGS = GroupSettings(offsets_retention_ms=RETENTION_MS, offsets_check_interval_ms=CHECK_MS)


def subscribed_to(*topics: str) -> dict[str, bytes]:
    return {"range": encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 1)}


def stable_with(coordinator: Coordinator, *topics: str, protocols: dict[str, bytes] | None = None) -> str:
    """A group of one member that subscribes to topics and never misses a heartbeat for a week."""
    token = coordinator.join(protocols=protocols or subscribed_to(*topics), session_ms=1_800_000)
    coordinator.advance(6_000)
    member = coordinator.joined(token).member_id
    coordinator.sync(member, 1, {member: b"all"})
    assert coordinator.is_in(ClassicGroupState.STABLE)
    return member


def stay(coordinator: Coordinator, member: str, milliseconds: int) -> None:
    for _ in range(milliseconds // 1_000_000 + 1):
        coordinator.advance(1_000_000)
        assert coordinator.heartbeat(member, 1) == ErrorCode.NONE


def test_offsets_of_a_simple_consumer_age_from_their_commit() -> None:
    coordinator = Coordinator(SETTINGS)
    coordinator.commit(offset=1)
    coordinator.advance(RETENTION_MS // 2)
    coordinator.commit(offset=2)
    coordinator.advance(RETENTION_MS - 1)
    assert coordinator.committed() == 2
    coordinator.advance(CHECK_MS + 1)
    assert coordinator.committed() is None
    assert coordinator.find() is None


def test_offsets_of_a_group_age_from_when_it_became_empty() -> None:
    coordinator = Coordinator(SETTINGS)
    member = stable_with(coordinator, "topic")
    coordinator.commit(member, 1, offset=1)
    stay(coordinator, member, 3 * RETENTION_MS)
    assert coordinator.committed() == 1
    coordinator.leave(member)
    coordinator.advance(RETENTION_MS - CHECK_MS)
    assert coordinator.committed() == 1
    coordinator.advance(2 * CHECK_MS)
    assert coordinator.committed() is None


def test_the_time_when_a_group_became_empty_outlives_the_coordinator() -> None:
    coordinator = Coordinator(SETTINGS)
    member = stable_with(coordinator, "topic")
    coordinator.commit(member, 1, offset=1)
    stay(coordinator, member, 3 * RETENTION_MS)
    coordinator.leave(member)
    coordinator.load()
    coordinator.advance(RETENTION_MS - CHECK_MS)
    assert coordinator.committed() == 1
    coordinator.advance(2 * CHECK_MS)
    assert coordinator.committed() is None


def test_offsets_of_topics_without_subscribers_age_in_a_live_group() -> None:
    coordinator = Coordinator(SETTINGS)
    member = stable_with(coordinator, "wanted")
    coordinator.commit(member, 1, topic="wanted")
    coordinator.commit(member, 1, topic="dropped")
    stay(coordinator, member, RETENTION_MS + CHECK_MS)
    assert coordinator.committed(topic="wanted") == 7
    assert coordinator.committed(topic="dropped") is None


def test_offsets_of_a_group_whose_subscriptions_cannot_be_read_are_kept() -> None:
    coordinator = Coordinator(SETTINGS)
    token = coordinator.join(protocols={"range": b"\xff"}, session_ms=1_800_000)
    coordinator.advance(6_000)
    member = coordinator.joined(token).member_id
    coordinator.sync(member, 1)
    coordinator.commit(member, 1)
    stay(coordinator, member, 3 * RETENTION_MS)
    assert coordinator.committed() == 7


def test_what_is_subscribed_to_is_known_even_of_clients_that_claim_a_version_and_leave_out_its_fields() -> None:
    coordinator = Coordinator(SETTINGS)
    subscription = encode_subscription(ConsumerProtocolSubscription(topics=["wanted"]), 0)
    claims_version_1 = b"\x00\x01" + subscription[2:]
    member = stable_with(coordinator, protocols={"range": claims_version_1})
    coordinator.commit(member, 1, topic="wanted")
    coordinator.commit(member, 1, topic="dropped")
    stay(coordinator, member, RETENTION_MS + CHECK_MS)
    assert coordinator.committed(topic="wanted") == 7
    assert coordinator.committed(topic="dropped") is None


def test_a_client_of_long_ago_says_itself_when_its_offset_expires() -> None:
    coordinator = Coordinator(SETTINGS)
    request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=[])
    committed = CommittedOffset(9, 0, "", coordinator.now_ms, expires_ms=coordinator.now_ms + 2 * RETENTION_MS)
    records = [commit_record(GROUP, "topic", 0, committed)]
    coordinator.run(lambda machine, token: machine.commit(token, request, 10, records, coordinator.now_ms))
    coordinator.load()
    coordinator.advance(2 * RETENTION_MS - 1)
    assert coordinator.committed() == 9
    coordinator.advance(CHECK_MS + 1)
    assert coordinator.committed() is None


def test_much_that_expires_at_once_is_ended_bit_by_bit() -> None:
    coordinator = Coordinator(SETTINGS)
    count = 3 * CHORE_SIZE + 7
    for number in range(count):
        coordinator.commit(topic=f"t{number}")
    coordinator.journal.batches.clear()
    coordinator.advance(RETENTION_MS + CHECK_MS)
    assert len(coordinator.machine.offsets) == 0
    assert coordinator.find() is None
    assert max(coordinator.journal.batches) <= CHORE_SIZE
    # The group goes last, when nothing refers to it.
    assert isinstance(coordinator.journal.records()[-1].key, GroupMetadataKey)


def with_offsets(count: int, topics: int = 1) -> Coordinator:
    """A group that has committed so many, of so many topics."""
    coordinator = Coordinator(SETTINGS)
    request = OffsetCommitRequest(group_id=GROUP, member_id="", topics=[])
    committed = CommittedOffset(1, 0, "", coordinator.now_ms)
    records = [commit_record(GROUP, f"t{number % topics}", number, committed) for number in range(count)]
    coordinator.run(lambda machine, token: machine.commit(token, request, 10, records, coordinator.now_ms))
    return coordinator


def expire_all(coordinator: Coordinator) -> None:
    coordinator.now_ms += RETENTION_MS
    coordinator.advance(CHECK_MS - 1)


def delete_topic(coordinator: Coordinator) -> None:
    coordinator.run(lambda machine, _: machine.forget_topics(["t0"], coordinator.now_ms))
    coordinator.advance(CHECK_MS - 1)


@pytest.mark.parametrize("end_all", [expire_all, delete_topic])
def test_ending_many_offsets_takes_a_time_that_grows_with_their_number(end_all: Callable[[Coordinator], None]) -> None:
    few, many = with_offsets(2 * CHORE_SIZE), with_offsets(8 * CHORE_SIZE)
    assert instructions(lambda: end_all(many)) < 6 * instructions(lambda: end_all(few))
    assert len(many.machine.offsets) == 0


def turns_of_upkeep(coordinator: Coordinator) -> list[int]:
    """What each turn of the next check takes."""
    machine = coordinator.machine
    coordinator.now_ms += CHECK_MS
    turns = []
    while (deadline_ms := machine.deadline_ms()) is not None and deadline_ms <= coordinator.now_ms + 1_000:
        coordinator.now_ms = max(coordinator.now_ms, deadline_ms)
        turns.append(instructions(lambda: machine.expire(coordinator.now_ms)))
    return turns


def test_a_turn_of_upkeep_looks_at_some_offsets_of_a_group_that_has_many() -> None:
    coordinator = with_offsets(8 * PORTION_SIZE, topics=3)
    turns = turns_of_upkeep(coordinator)
    assert len(turns) > 8
    assert max(turns[1:]) < 4 * min(turns[1:8])
    assert len(coordinator.machine.offsets) == 8 * PORTION_SIZE, "none of them is old"


@pytest.mark.parametrize("topics", [1, 8 * PORTION_SIZE])
def test_the_first_turn_of_upkeep_does_not_list_all_offsets_of_a_group(topics: int) -> None:
    few, many = with_offsets(2 * PORTION_SIZE, topics), with_offsets(16 * PORTION_SIZE, topics)
    assert turns_of_upkeep(many)[0] < 1.5 * turns_of_upkeep(few)[0]


def open_transactions(coordinator: Coordinator, count: int, topic: str) -> None:
    """So many producers have an offset pending for the group."""
    committed = CommittedOffset(1, 0, "", coordinator.now_ms)
    for producer in range(count):
        coordinator.machine.apply(commit_record(GROUP, topic, producer, committed, producer, 0))


@pytest.mark.parametrize("topic", ["t0", "other"])
def test_a_turn_of_upkeep_does_not_walk_the_transactions_that_are_open(topic: str) -> None:
    without, beside = with_offsets(PORTION_SIZE), with_offsets(PORTION_SIZE)
    open_transactions(beside, 200, topic)
    assert turns_of_upkeep(beside)[0] < 1.2 * turns_of_upkeep(without)[0]


@pytest.mark.parametrize("end_all", [expire_all, delete_topic])
def test_ending_offsets_does_not_walk_the_transactions_that_are_open(end_all: Callable[[Coordinator], None]) -> None:
    without, beside = with_offsets(PORTION_SIZE), with_offsets(PORTION_SIZE)
    open_transactions(beside, 200, "other")
    assert instructions(lambda: end_all(beside)) < 1.2 * instructions(lambda: end_all(without))
    assert beside.machine.offsets.of(GROUP) == {}


def test_offsets_that_come_and_go_while_upkeep_walks_them_do_not_stop_it() -> None:
    coordinator = with_offsets(4 * PORTION_SIZE, topics=4)
    coordinator.now_ms += CHECK_MS
    assert coordinator.machine.expire(coordinator.now_ms)
    coordinator.commit(topic="new")
    delete_offsets(coordinator, *(("t0", number) for number in range(0, 4 * PORTION_SIZE, 4)))
    coordinator.advance(1_000)
    assert len(coordinator.machine.offsets) == 3 * PORTION_SIZE + 1
    expire_all(coordinator)
    assert len(coordinator.machine.offsets) == 0


def test_a_turn_of_upkeep_looks_at_some_groups_where_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "LOOKS_AT_ONCE", 20)
    coordinator = Coordinator(SETTINGS)
    for number in range(100):
        coordinator.commit(group=f"g{number}")
    assert len(turns_of_upkeep(coordinator)) >= 10
    assert len(coordinator.machine.offsets) == 100


def test_what_was_committed_for_a_deleted_topic_is_gone_and_what_comes_later_stays() -> None:
    coordinator = Coordinator()
    for topic in ("gone", "kept"):
        coordinator.commit(topic=topic)
        coordinator.commit(topic=topic, group="other")
    coordinator.advance(1)
    coordinator.run(lambda machine, _: machine.forget_topics(["gone"], coordinator.now_ms))
    assert [coordinator.committed(group, "gone") for group in (GROUP, "other")] == [None, None]
    assert [coordinator.committed(group, "kept") for group in (GROUP, "other")] == [7, 7]
    coordinator.advance(1)
    coordinator.commit(topic="gone", offset=1)
    coordinator.advance(CHECK_MS)
    coordinator.load()
    assert [coordinator.committed(GROUP, "gone"), coordinator.committed(GROUP, "kept")] == [1, 7]


def delete_offsets(coordinator: Coordinator, *wanted: tuple[str, int], group: str = GROUP) -> Any:
    token = coordinator.run(lambda machine, token: machine.delete_offsets(token, group, wanted))
    return coordinator.replies[token]


def test_offsets_of_an_empty_group_can_be_deleted() -> None:
    coordinator = Coordinator()
    coordinator.commit(topic="a")
    coordinator.commit(topic="b")
    assert delete_offsets(coordinator, ("a", 0), ("a", 1), ("never", 0)) == [ErrorCode.NONE] * 3
    coordinator.load()
    assert (coordinator.committed(topic="a"), coordinator.committed(topic="b")) == (None, 7)


def test_offsets_that_members_use_cannot_be_deleted() -> None:
    coordinator = Coordinator()
    member = stable_with(coordinator, "used")
    coordinator.commit(member, 1, topic="used")
    coordinator.commit(member, 1, topic="unused")
    codes = delete_offsets(coordinator, ("used", 0), ("unused", 0))
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert (coordinator.committed(topic="used"), coordinator.committed(topic="unused")) == (7, None)


def test_offsets_of_a_group_that_is_not_of_consumers_can_be_deleted_only_when_it_is_empty() -> None:
    coordinator = Coordinator()
    token = coordinator.join(protocol_type="connect")
    coordinator.advance(6_000)
    assert delete_offsets(coordinator, ("a", 0)) == ErrorCode.NON_EMPTY_GROUP
    coordinator.leave(coordinator.joined(token).member_id)
    assert delete_offsets(coordinator, ("a", 0)) == [ErrorCode.NONE]


def test_offsets_of_a_group_that_is_not_there_are_not_deleted() -> None:
    assert delete_offsets(Coordinator(), ("a", 0)) == ErrorCode.GROUP_ID_NOT_FOUND


def delete_group(coordinator: Coordinator) -> ErrorCode:
    token = coordinator.run(lambda machine, token: machine.delete_group(token, GROUP))
    return ErrorCode(coordinator.replies[token])


def test_an_empty_group_is_deleted_with_its_offsets() -> None:
    coordinator = Coordinator()
    member = stable_with(coordinator, "topic")
    coordinator.commit(member, 1)
    assert delete_group(coordinator) == ErrorCode.NON_EMPTY_GROUP
    coordinator.leave(member)
    assert delete_group(coordinator) == ErrorCode.NONE
    assert delete_group(coordinator) == ErrorCode.GROUP_ID_NOT_FOUND
    coordinator.load()
    assert coordinator.find() is None
    assert coordinator.committed() is None


@pytest.mark.parametrize("is_loaded", [False, True])
def test_administrators_see_members_with_their_metadata_and_assignment(is_loaded: bool) -> None:
    coordinator = Coordinator()
    member = stable_with(coordinator, "topic")
    if is_loaded:
        coordinator.load()
    token = coordinator.run(lambda machine, token: machine.describe(token, GROUP))
    group = coordinator.replies[token]
    assert (group.error_code, group.group_state, group.protocol_type, group.protocol_data) == (
        ErrorCode.NONE,
        "Stable",
        "consumer",
        "range",
    )
    [described] = group.members
    assert (described.member_id, described.client_id, described.client_host) == (member, "old", "/127.0.0.1")
    assert (described.member_metadata, described.member_assignment) == (subscribed_to("topic")["range"], b"all")
    [listed] = coordinator.machine.listing()
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        GROUP,
        "consumer",
        "Stable",
        "classic",
    )


def test_a_group_that_is_not_there_is_described_as_dead() -> None:
    coordinator = Coordinator()
    token = coordinator.run(lambda machine, token: machine.describe(token, "absent"))
    group = coordinator.replies[token]
    assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")


def test_administrators_see_an_assignment_until_another_takes_its_place_or_none_comes() -> None:
    coordinator = Coordinator()
    member = stable_with(coordinator, "topic")

    def shown() -> tuple[str, bytes, bytes]:
        token = coordinator.run(lambda machine, token: machine.describe(token, GROUP))
        group = coordinator.replies[token]
        [one] = group.members
        return group.group_state, one.member_metadata, one.member_assignment

    coordinator.join(member, protocols=subscribed_to("topic"))
    assert shown() == ("CompletingRebalance", b"", b"all")
    # The generation ends before it had an assignment.
    coordinator.join(member, protocols=subscribed_to("other"))
    assert shown() == ("CompletingRebalance", b"", b"")
