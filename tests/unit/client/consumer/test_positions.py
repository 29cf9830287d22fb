"""From nothing to a position, and whether it is still sound."""

import asyncio
from collections.abc import Callable, Collection
from typing import Any, cast

import pytest

from levada.client.cluster import Deadline
from levada.client.consumer.offset_lookup import OffsetLookup
from levada.client.consumer.positions import Positions
from levada.client.consumer.subscription import Position, Reset, Subscriptions
from levada.client.errors import (
    Disconnected,
    LogTruncated,
    NoOffsetForPartition,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from levada.client.options import parse_offset_reset
from levada.client.types import OffsetAndMetadata, TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from levada.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from tests.unit.client.consumer.fakes import FakeCluster

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Commits:
    def __init__(self, committed: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self._committed = committed

    async def committed(
        self, partitions: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return {partition: self._committed.get(partition) for partition in partitions}


class Desk:
    """Positions of a consumer in a cluster whose answers a test scripts."""

    def __init__(
        self,
        answer: Callable[[int, Any], Any],
        policy: str = "earliest",
        committed: dict[TopicPartition, OffsetAndMetadata] | None = None,
    ) -> None:
        self.cluster: Any = cast(Any, FakeCluster(answer))
        self.cluster.see((1, 4), (2, 4))
        self.subscriptions = Subscriptions()
        self.changes = 0
        lookup = OffsetLookup(self.cluster, 0)
        self.positions = Positions(
            self.cluster, self.subscriptions, lookup, parse_offset_reset(policy), self._on_change
        )
        self.positions.commits = Commits(committed or {})

    def _on_change(self) -> None:
        self.changes += 1

    def position(self, partition: TopicPartition) -> Position | None:
        return self.subscriptions.state(partition).position

    def settle(self) -> None:
        async def settle() -> None:
            async with asyncio.timeout(5):
                await self.positions.settle()

        asyncio.run(settle())


def times_of(request: ListOffsetsRequest) -> dict[int, int]:
    return {each.partition_index: each.timestamp for topic in request.topics for each in topic.partitions}


def found(**offsets: int) -> Callable[[int, Any], Any]:
    """Each partition has the same offset for every consumer; `p0=5`."""

    def answer(_node: int, request: Any) -> Any:
        assert isinstance(request, ListOffsetsRequest)
        return listed({index: (offsets[f"p{index}"], 0) for index in times_of(request)})

    return answer


def listed(answers: dict[int, tuple[int, int]]) -> ListOffsetsResponse:
    partitions = [
        ListOffsetsPartitionResponse(partition_index=index, offset=offset, error_code=code, timestamp=0, leader_epoch=4)
        for index, (offset, code) in answers.items()
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=partitions)])


def ends(**answers: tuple[int, int]) -> Callable[[int, Any], Any]:
    """Epoch and end offset of each partition; `p0=(3, 80)`."""

    def answer(_node: int, request: Any) -> Any:
        assert isinstance(request, OffsetForLeaderEpochRequest)
        return OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(
                    topic=topic.topic,
                    partitions=[
                        EpochEndOffset(
                            partition=each.partition,
                            leader_epoch=answers[f"p{each.partition}"][0],
                            end_offset=answers[f"p{each.partition}"][1],
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return answer


def test_a_committed_offset_comes_before_the_policy() -> None:
    desk = Desk(found(p1=9), committed={ZERO: OffsetAndMetadata(5)})
    desk.subscriptions.assign([ZERO, ONE])
    desk.settle()
    assert (desk.position(ZERO), desk.position(ONE)) == (Position(5), Position(9))
    assert desk.changes
    # Only the leader of the one that had to be looked up was asked.
    assert [(node, times_of(request)) for node, request in desk.cluster.asked] == [(2, {1: -2})]


@pytest.mark.parametrize(
    ("policy", "time"), [("earliest", -2), ("latest", -1), ("by_duration:PT1S", 1_700_000_000_000)]
)
def test_the_policy_says_what_is_asked_for(policy: str, time: int) -> None:
    desk = Desk(found(p0=7), policy)
    desk.subscriptions.assign([ZERO])
    desk.settle()
    assert desk.position(ZERO) == Position(7)
    assert times_of(desk.cluster.asked[0][1]) == {0: time}


def test_where_no_record_is_young_enough_reading_begins_at_the_end() -> None:
    def answer(_node: int, request: ListOffsetsRequest) -> Any:
        return listed({0: (40, 0) if times_of(request)[0] == -1 else (-1, 0)})

    desk = Desk(answer, "by_duration:PT1S")
    desk.subscriptions.assign([ZERO])
    desk.settle()
    assert desk.position(ZERO) == Position(40)


def test_without_policy_and_commit_there_is_no_position() -> None:
    desk = Desk(found(p0=5), "none", {ONE: OffsetAndMetadata(3)})
    desk.subscriptions.assign([ZERO, ONE])
    for _ in range(2):
        with pytest.raises(NoOffsetForPartition, match="t-0") as caught:
            desk.settle()
        assert caught.value.partitions == (ZERO,)
    assert desk.position(ONE) == Position(3)
    # To say where to begin helps, with an offset or with an end.
    desk.subscriptions.seek_to([ZERO], Reset.EARLIEST)
    desk.settle()
    assert desk.position(ZERO) == Position(5)


def test_what_passes_is_tried_again() -> None:
    answers: list[Any] = [
        Disconnected("gone"),
        listed({0: (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)}),
        listed({0: (-1, ErrorCode.UNKNOWN_LEADER_EPOCH)}),
        listed({0: (6, 0)}),
    ]
    desk = Desk(lambda _node, _request: answers.pop(0))
    desk.subscriptions.assign([ZERO])
    desk.settle()
    assert desk.position(ZERO) == Position(6)
    assert desk.cluster.refreshes >= 3


def test_what_does_not_pass_is_told_and_does_not_hold_up_others() -> None:
    def answer(_node: int, request: ListOffsetsRequest) -> Any:
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return listed({index: (8, 0) if index else (-1, code) for index in times_of(request)})

    desk = Desk(answer)
    desk.cluster.see((1, 4), (1, 4))
    desk.subscriptions.assign([ZERO, ONE])
    with pytest.raises(TopicAuthorizationFailed):
        desk.settle()
    assert desk.position(ONE) == Position(8)


def test_a_seek_while_the_question_is_under_way_wins() -> None:
    def answer(_node: int, request: ListOffsetsRequest) -> Any:
        desk.subscriptions.seek(ZERO, Position(77))
        return listed({0: (5, 0)})

    desk = Desk(answer)
    desk.subscriptions.assign([ZERO])
    desk.settle()
    assert desk.position(ZERO) == Position(77)


def test_a_partition_that_went_meanwhile_is_left_alone() -> None:
    def answer(_node: int, request: ListOffsetsRequest) -> Any:
        desk.subscriptions.assign([ONE])
        return listed(dict.fromkeys(times_of(request), (5, 0)))

    desk = Desk(answer)
    desk.subscriptions.assign([ZERO])
    desk.settle()
    assert desk.subscriptions.assigned() == [ONE]


def test_a_partition_without_a_leader_waits_for_one() -> None:
    desk = Desk(found(p0=5))
    desk.cluster.see((-1, 4))
    desk.subscriptions.assign([ZERO])
    refresh = desk.cluster.refresh_soon

    def elect() -> None:
        refresh()
        if desk.cluster.refreshes == 4:
            desk.cluster.see((2, 5))

    desk.cluster.refresh_soon = elect
    desk.settle()
    assert desk.position(ZERO) == Position(5)


# Whether positions are sound (KIP-320)


def placed(desk: Desk, position: Position) -> Desk:
    """At a position that was sound in epoch 4; now another leader has epoch 6."""
    desk.subscriptions.assign([ZERO])
    desk.subscriptions.seek(ZERO, position)
    state = desk.subscriptions.state(ZERO)
    state.validated_epoch = 4
    assert desk.positions.is_sound(ZERO, state)
    desk.cluster.see((2, 6))
    return desk


def test_a_position_is_checked_when_another_leads() -> None:
    desk = placed(Desk(ends(p0=(4, 100))), Position(100, 4))
    state = desk.subscriptions.state(ZERO)
    assert not desk.positions.is_sound(ZERO, state)
    desk.settle()
    assert desk.positions.is_sound(ZERO, state)
    assert desk.position(ZERO) == Position(100, 4)
    (node, request) = desk.cluster.asked[0]
    question = request.topics[0].partitions[0]
    assert (node, question.leader_epoch, question.current_leader_epoch) == (2, 4, 6)


@pytest.mark.parametrize("epoch", [-1, 6])
def test_a_position_without_an_epoch_or_of_the_new_one_needs_no_check(epoch: int) -> None:
    desk = placed(Desk(ends()), Position(100, epoch))
    assert desk.positions.is_sound(ZERO, desk.subscriptions.state(ZERO))
    desk.settle()
    assert desk.cluster.asked == []


def test_a_log_that_was_cut_is_read_on_from_the_cut() -> None:
    desk = placed(Desk(ends(p0=(3, 80))), Position(100, 4))
    desk.settle()
    assert desk.position(ZERO) == Position(80, 3)
    assert desk.positions.is_sound(ZERO, desk.subscriptions.state(ZERO))


def test_a_log_that_was_cut_is_told_without_a_policy() -> None:
    desk = placed(Desk(ends(p0=(3, 80)), "none"), Position(100, 4))
    for _ in range(2):
        with pytest.raises(LogTruncated) as caught:
            desk.settle()
        assert caught.value.offsets == {ZERO: 100}
        assert caught.value.divergent_offsets == {ZERO: 80}
    assert desk.position(ZERO) == Position(100, 4)
    desk.subscriptions.seek(ZERO, Position(80))
    desk.settle()


def test_a_log_that_knows_nothing_of_the_epoch_is_begun_as_the_policy_says() -> None:
    def answer(node: int, request: Any) -> Any:
        return ends(p0=(-1, -1))(node, request) if not isinstance(request, ListOffsetsRequest) else listed({0: (3, 0)})

    desk = placed(Desk(answer), Position(100, 4))
    desk.settle()
    assert desk.position(ZERO) == Position(3)


def test_a_broker_too_old_to_be_asked_is_believed() -> None:
    desk = placed(Desk(lambda _node, _request: UnsupportedVersion("old")), Position(100, 4))
    desk.settle()
    assert desk.positions.is_sound(ZERO, desk.subscriptions.state(ZERO))


def test_a_check_that_fails_is_repeated() -> None:
    answers: list[Any] = [Disconnected("gone"), ends(p0=(4, 100))]

    def answer(node: int, request: Any) -> Any:
        one = answers.pop(0)
        return one if isinstance(one, Exception) else one(node, request)

    desk = placed(Desk(answer), Position(100, 4))
    desk.settle()
    assert desk.positions.is_sound(ZERO, desk.subscriptions.state(ZERO))
