"""What is fetched from whom, what becomes of answers, and who is read next."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from levada.client.consumer import fetched
from levada.client.consumer.fetch_loop import FetchPlan, Obstacle
from levada.client.consumer.fetch_session import FetchSession
from levada.client.consumer.fetched import RecordReading
from levada.client.consumer.fetcher import Fetcher
from levada.client.consumer.offset_lookup import OffsetLookup
from levada.client.consumer.positions import Positions
from levada.client.consumer.subscription import Position, Reset, Subscriptions
from levada.client.consumer.wake_signal import WakeSignal
from levada.client.errors import CorruptRecord, OffsetOutOfRange, TopicAuthorizationFailed
from levada.client.options import parse_offset_reset
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from levada.records import build_batch
from tests.unit.client.consumer.fakes import TOPIC_ID, FakeCluster

ZERO, ONE, TWO = (TopicPartition("t", index) for index in range(3))
Scenario = Callable[["Desk"], Coroutine[Any, Any, None]]


def batch(base_offset: int, count: int, size: int = 10) -> bytes:
    records = [(0, None, bytes(size), ()) for _ in range(count)]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=4)


def data(partition: int, records: bytes = b"", code: int = 0, **details: Any) -> PartitionData:
    known = {"high_watermark": 1_000, "last_stable_offset": 900, "log_start_offset": 1, **details}
    return PartitionData(
        partition_index=partition, error_code=code, aborted_transactions=None, records=records, **known
    )


class Desk:
    """A fetcher whose loops are the test itself."""

    def __init__(self, policy: str = "earliest", **options: Any) -> None:
        self.cluster: Any = cast(Any, FakeCluster(**options))
        self.cluster.see((1, 4), (1, 4), (2, 4))
        self.subscriptions = Subscriptions()
        self.wake_signal = WakeSignal()
        lookup = OffsetLookup(self.cluster, 0)
        self.positions = Positions(
            self.cluster, self.subscriptions, lookup, parse_offset_reset(policy), self.wake_signal.changed
        )
        self.fetcher = Fetcher(self.cluster, self.subscriptions, self.positions, RecordReading(), self.wake_signal)
        self.session = FetchSession()

    def assign(self, *partitions: TopicPartition) -> None:
        self.subscriptions.assign(partitions)
        for partition in partitions:
            self.subscriptions.seek(partition, Position(0))

    def plan(self, node_id: int = 1) -> FetchPlan:
        plan = self.fetcher.plan(node_id)
        assert isinstance(plan, FetchPlan)
        return plan

    def obstacle(self, node_id: int = 1) -> Obstacle:
        obstacle = self.fetcher.plan(node_id)
        assert isinstance(obstacle, Obstacle)
        return obstacle

    def asked(self, node_id: int = 1) -> dict[int, int]:
        return {key.partition: ask.offset for key, ask in self.plan(node_id).asks.items()}

    def answer(self, plan: FetchPlan, *partitions: PartitionData, node_id: int = 1) -> None:
        topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=list(partitions))
        self.fetcher.absorb(node_id, plan, FetchResponse(responses=[topic]), self.session)

    def fetch(self, *partitions: PartitionData) -> None:
        self.answer(self.plan(), *partitions)

    def offsets(self, limit: int = 1_000) -> list[tuple[int, int]]:
        return [(record.partition, record.offset) for record in self.fetcher.take(limit)]


def test_each_leader_is_asked_for_its_partitions() -> None:
    desk = Desk()
    desk.assign(ZERO, ONE, TWO)
    assert desk.asked(1) == {0: 0, 1: 0}
    assert desk.asked(2) == {2: 0}
    assert desk.obstacle(3).full is None
    (ask, *_) = desk.plan().asks.values()
    assert (ask.leader_epoch, ask.max_bytes, desk.plan().max_bytes) == (4, 1_048_576, 52_428_800)


def test_a_partition_without_position_paused_or_going_is_not_asked_for() -> None:
    desk = Desk()
    desk.subscriptions.assign([ZERO, ONE])
    assert isinstance(desk.fetcher.plan(1), Obstacle)
    desk.assign(ZERO, ONE)
    desk.subscriptions.state(ZERO).is_paused = True
    assert desk.asked() == {1: 0}
    desk.subscriptions.state(ONE).is_being_revoked = True
    assert isinstance(desk.fetcher.plan(1), Obstacle)


def test_fetching_goes_on_behind_what_is_at_hand() -> None:
    desk = Desk()
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 5) + batch(5, 5)), data(1))
    assert desk.asked() == {0: 10, 1: 0}
    state = desk.subscriptions.state(ZERO)
    assert (state.high_watermark, state.last_stable_offset, state.log_start_offset) == (1_000, 900, 1)
    assert desk.offsets(3) == [(0, 0), (0, 1), (0, 2)]
    assert desk.subscriptions.state(ZERO).position == Position(3, 4)
    assert desk.asked() == {0: 10, 1: 0}


def test_partitions_take_turns_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched, "DECODED_TOGETHER", 0)
    desk = Desk()
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 4) + batch(4, 2)), data(1, batch(0, 4)))
    assert desk.offsets(2) == [(0, 0), (0, 1)]
    assert desk.offsets(2) == [(0, 2), (0, 3)]
    assert desk.offsets(2) == [(1, 0), (1, 1)]
    assert desk.offsets(3) == [(1, 2), (1, 3), (0, 4)]
    assert desk.offsets(5) == [(0, 5)]
    assert desk.offsets(5) == []
    # A partition alone fills a poll from as many batches as it takes.
    desk.fetch(data(0, batch(6, 4) + batch(10, 4)))
    assert desk.offsets(6) == [(0, offset) for offset in range(6, 12)]


def test_no_broker_is_asked_while_a_partition_has_more_than_an_answer_unread() -> None:
    desk = Desk(max_partition_fetch_bytes=1_000)
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 15, size=40)))
    # Less than a full answer: the next one may come.
    desk.fetch(data(0, batch(15, 15, size=40)))
    full = desk.obstacle().full
    assert full is not None
    assert full.partition == ZERO
    assert len(desk.offsets(1)) == 1
    assert desk.asked() == {0: 30, 1: 0}


def test_what_is_unread_counts_towards_the_limit_of_a_broker() -> None:
    desk = Desk(fetch_max_bytes=1_000, max_partition_fetch_bytes=100_000)
    desk.assign(ZERO, ONE)
    first = batch(0, 5, size=40)
    desk.fetch(data(0, first))
    assert desk.plan().max_bytes == 1_000 - len(first)
    desk.fetch(data(1, batch(0, 5, size=40)))
    assert desk.obstacle().excess_bytes == 2 * len(first) - 500
    # Paused ones are no reason to starve the others.
    desk.subscriptions.state(ZERO).is_paused = True
    assert desk.asked() == {1: 5}
    assert desk.offsets() == [(1, index) for index in range(5)]


def test_a_loop_goes_on_when_enough_is_read() -> None:
    async def scenario() -> None:
        desk = Desk(max_partition_fetch_bytes=400)
        desk.assign(ZERO)
        desk.fetch(data(0, batch(0, 5, size=40)))
        desk.fetch(data(0, batch(5, 5, size=40)))
        desk.fetcher.arrange()
        await asyncio.sleep(0)
        assert desk.fetcher.loops[1].obstacle is not None
        desk.offsets(1)
        assert desk.fetcher.is_behind
        for loop in desk.fetcher.loops.values():
            loop.abandon()
        await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_seek_drops_what_is_at_hand_and_what_is_on_its_way() -> None:
    desk = Desk()
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 5)))
    under_way = desk.plan()
    desk.subscriptions.seek(ZERO, Position(2))
    desk.answer(under_way, data(0, batch(5, 5)), data(1, batch(0, 1)))
    assert desk.offsets() == [(1, 0)]
    assert desk.asked() == {0: 2, 1: 1}


def test_what_comes_for_a_partition_that_went_is_dropped() -> None:
    desk = Desk()
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 5)))
    under_way = desk.plan()
    desk.subscriptions.assign([ONE])
    desk.subscriptions.assign([ONE, ZERO])
    desk.answer(under_way, data(0, batch(5, 5)))
    assert desk.offsets() == []


def test_a_paused_partition_keeps_what_it_has() -> None:
    desk = Desk()
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 2)), data(1, batch(0, 2)))
    desk.subscriptions.state(ZERO).is_paused = True
    assert desk.offsets() == [(1, 0), (1, 1)]
    assert desk.offsets() == []
    desk.subscriptions.state(ZERO).is_paused = False
    assert desk.offsets() == [(0, 0), (0, 1)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
    ],
)
def test_an_outdated_view_is_renewed_and_the_partition_tried_again(code: ErrorCode) -> None:
    desk = Desk()
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 2)), data(1, code=code))
    assert desk.cluster.refreshes == 1
    assert desk.asked() == {0: 2}
    assert desk.offsets() == [(0, 0), (0, 1)]
    assert desk.offsets() == []
    desk.cluster.clock.ms += 10
    assert desk.asked() == {0: 2, 1: 0}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_broker_that_is_behind_is_asked_again(code: ErrorCode) -> None:
    desk = Desk()
    desk.assign(ZERO)
    desk.fetch(data(0, code=code))
    assert 0 < desk.obstacle().retry_in_ms <= 2
    assert desk.offsets() == []
    assert desk.cluster.refreshes == 0
    desk.cluster.clock.ms += 10
    assert desk.asked() == {0: 0}


def test_the_leader_that_an_answer_names_is_heard_of() -> None:
    desk = Desk()
    desk.assign(ZERO)
    hint = LeaderIdAndEpoch(leader_id=3, leader_epoch=7)
    desk.fetch(data(0, code=ErrorCode.NOT_LEADER_OR_FOLLOWER, current_leader=hint))
    assert desk.cluster.heard == [("t", 0, 3, 7)]


def test_an_offset_out_of_range_is_reset_once_all_before_it_is_read() -> None:
    desk = Desk()
    desk.assign(ZERO)
    desk.fetch(data(0, batch(0, 3)))
    desk.fetch(data(0, code=ErrorCode.OFFSET_OUT_OF_RANGE, high_watermark=-1))
    assert isinstance(desk.fetcher.plan(1), Obstacle)
    assert desk.offsets(2) == [(0, 0), (0, 1)]
    assert desk.offsets(2) == [(0, 2)]
    assert desk.subscriptions.state(ZERO).reset is None
    assert desk.offsets(2) == []
    assert desk.subscriptions.state(ZERO).reset is Reset.POLICY


def test_an_offset_out_of_range_is_told_without_a_policy() -> None:
    desk = Desk("none")
    desk.assign(ZERO, ONE)
    for _ in range(2):
        desk.fetch(data(0, code=ErrorCode.OFFSET_OUT_OF_RANGE), data(1, batch(0, 1)))
        with pytest.raises(OffsetOutOfRange, match="t-0 has no offset 0") as caught:
            desk.offsets()
        assert caught.value.offsets == {ZERO: 0}
        assert desk.offsets() == [(1, 0)]
        desk.subscriptions.seek(ONE, Position(0))
        desk.cluster.clock.ms += 10


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, TopicAuthorizationFailed),
        (ErrorCode.CORRUPT_MESSAGE, CorruptRecord),
    ],
)
def test_what_the_user_must_know_is_raised_and_tried_again(code: ErrorCode, kind: type[Exception]) -> None:
    desk = Desk()
    desk.assign(ZERO)
    desk.fetch(data(0, code=code))
    with pytest.raises(kind, match="t-0"):
        desk.offsets()
    desk.cluster.clock.ms += 10
    desk.fetch(data(0, code=code))
    with pytest.raises(kind, match="t-0"):
        desk.fetcher.peek_batches()
    desk.cluster.clock.ms += 10
    assert desk.asked() == {0: 0}


def test_a_nearer_replica_is_read_until_it_fails_or_its_time_is_over() -> None:
    desk = Desk(metadata_max_age_ms=1_000)
    desk.assign(ZERO)
    desk.fetch(data(0, preferred_read_replica=3))
    assert isinstance(desk.fetcher.plan(1), Obstacle)
    assert desk.asked(3) == {0: 0}
    desk.cluster.clock.ms += 1_000
    assert desk.asked(1) == {0: 0}
    desk.fetch(data(0, preferred_read_replica=3))
    # A replica may be behind; only the leader knows whether an offset is out of range.
    desk.answer(desk.plan(3), data(0, code=ErrorCode.OFFSET_OUT_OF_RANGE), node_id=3)
    desk.cluster.clock.ms += 10
    assert desk.asked(1) == {0: 0}
    desk.fetch(data(0, preferred_read_replica=3))
    desk.cluster.see((1, 4), brokers=2)
    assert desk.asked(1) == {0: 0}


def test_data_of_a_deposed_leader_is_dropped_until_the_position_is_checked() -> None:
    async def scenario() -> None:
        desk = Desk()
        desk.assign(ZERO)
        desk.fetch(data(0, batch(0, 3) + batch(3, 3)))
        assert len(desk.offsets(3)) == 3
        desk.cluster.see((2, 9))
        assert isinstance(desk.fetcher.plan(2), Obstacle)
        assert desk.offsets() == []
        desk.subscriptions.state(ZERO).validated_epoch = 9
        assert desk.asked(2) == {0: 3}
        desk.positions.close()
        await asyncio.sleep(0)

    asyncio.run(scenario())


def test_whole_batches_are_peeked_at_and_count_when_skipped() -> None:
    desk = Desk()
    desk.assign(ZERO, ONE)
    desk.fetch(data(0, batch(0, 3) + batch(3, 3)), data(1, batch(0, 2)))
    desk.offsets(1)
    peeked = desk.fetcher.peek_batches()
    assert [(each.partition, each.offset, len(each.batches)) for each in peeked] == [(ZERO, 1, 2), (ONE, 0, 1)]
    assert len(desk.fetcher.peek_batches()) == 2
    desk.fetcher.skip_batches([peeked[0]._replace(batches=peeked[0].batches[:1])])
    assert desk.offsets() == [(1, 0), (1, 1), (0, 3), (0, 4), (0, 5)]


def test_an_offset_out_of_range_is_reset_when_batches_are_peeked_at() -> None:
    desk = Desk()
    desk.assign(ZERO)
    desk.fetch(data(0, code=ErrorCode.OFFSET_OUT_OF_RANGE))
    desk.wake_signal.take_changed()
    assert desk.fetcher.peek_batches() == []
    assert desk.subscriptions.state(ZERO).reset is Reset.POLICY
    assert desk.wake_signal.take_changed()
