"""How long offsets are kept, and who may delete them or their group."""

from typing import Any

import pytest

from levada.groups import CommittedOffset, GroupSettings, NewOffset, State
from levada.groups.machine import CHORE_SIZE
from levada.groups.records import GroupMetadataKey
from levada.model.errors import ErrorCode
from levada.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from tests.unit.groups.harness import GROUP, Coordinator

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
    assert coordinator.is_in(State.STABLE)
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


def test_offsets_of_topics_nobody_subscribes_to_any_more_age_in_a_live_group() -> None:
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
    new = [NewOffset("topic", 0, committed)]
    coordinator.run(lambda machine, token: machine.commit(token, request, 10, new, coordinator.now_ms))
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


def test_nobody_deletes_offsets_of_a_group_that_is_not_there() -> None:
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
    token = coordinator.run(lambda machine, token: machine.describe(token, "nobody"))
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
