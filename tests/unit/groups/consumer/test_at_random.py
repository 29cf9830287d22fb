"""Whatever members do and whenever a coordinator is replaced, a partition has one owner, and the group settles."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from levada.groups.consumer import ConsumerGroupSettings, ConsumerGroupState, check_fetch
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from tests.unit.groups.consumer.harness import GROUP, Coordinator, state_of

TOPICS = ("a", "b", "c", "d")
REGEXES = ("a|b", ".*", "[c-z].*", "none")
HEARTBEAT_MS = 5_000
STEPS = 200
STEP_WEIGHTS = {
    "heartbeat": 30,
    "reconcile": 20,
    "come": 4,
    "leave": 2,
    "crash": 1,
    "advance": 12,
    "resubscribe": 3,
    "confuse": 1,
    "change_topic": 2,
    "restart": 2,
}

Partitions = set[tuple[bytes, int]]

JOIN_AGAIN = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND)


@dataclass
class Consumer:
    """A client that keeps to the protocol, though not all of its answers reach it."""

    member_id: str
    instance_id: str | None
    names: list[str] = field(default_factory=list)
    regex: str = ""
    epoch: int = 0
    owned: Partitions = field(default_factory=set)
    target: Partitions = field(default_factory=set)
    is_gone: bool = False
    has_missed_reply: bool = False
    """It then says everything, and so hears everything."""

    def request(self, *, says_all: bool) -> ConsumerGroupHeartbeatRequest:
        says_all = says_all or self.epoch == 0 or self.has_missed_reply
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=30_000 if says_all else -1,
            subscribed_topic_names=self.names if says_all else None,
            subscribed_topic_regex=self.regex if says_all else None,
            topic_partitions=[
                RequestTopicPartitions(topic_id=topic_id, partitions=[partition])
                for topic_id, partition in sorted(self.owned)
            ],
        )

    def hear(self, reply: ConsumerGroupHeartbeatResponse) -> None:
        self.has_missed_reply = False
        if reply.error_code in JOIN_AGAIN:
            self.epoch, self.owned, self.target = 0, set(), set()
        elif reply.error_code:
            self.is_gone = True
        else:
            self.epoch = reply.member_epoch
            if reply.assignment is not None:
                topics = reply.assignment.topic_partitions
                self.target = {(topic.topic_id, partition) for topic in topics for partition in topic.partitions}

    def reconcile(self, *, may_fetch_offsets: bool) -> None:
        """Give up, then take; a member cannot begin with a partition whose offset it does not get."""
        self.owned = set(self.target) if may_fetch_offsets else self.owned & self.target


class Crowd:
    """Members of a group, its topics and its coordinator, at the mercy of a seed."""

    step_weights = STEP_WEIGHTS

    def __init__(self, seed: int, settings: ConsumerGroupSettings | None = None) -> None:
        self.chance = random.Random(seed)
        self.coordinator = Coordinator(settings)
        self.consumers: list[Consumer] = []
        self.codes: Counter[int] = Counter()
        self.states: set[ConsumerGroupState] = set()
        self._names = (f"m{number}" for number in range(10_000))
        for name in TOPICS[:2]:
            self.coordinator.topic(name, self.chance.randint(1, 5))

    def step(self) -> None:
        kind = self.chance.choices(list(self.step_weights), list(self.step_weights.values()))[0]
        getattr(self, kind)()

    def alive(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if not consumer.is_gone]

    def heartbeat(self) -> None:
        if self.alive():
            self.send(self.chance.choice(self.alive()), is_lossy=True)

    def send(self, consumer: Consumer, *, is_lossy: bool) -> None:
        request = consumer.request(says_all=self.chance.random() < 0.2)
        is_free_to_say_less = consumer.epoch and not consumer.has_missed_reply and consumer.owned == consumer.target
        if is_free_to_say_less and self.chance.random() < 0.5:
            request.topic_partitions = None
        reply = self.coordinator.send(request)
        self.codes[reply.error_code] += 1
        if is_lossy and self.chance.random() < 0.1:
            consumer.has_missed_reply = True
        else:
            consumer.hear(reply)

    def reconcile(self) -> None:
        if self.alive():
            self.let_reconcile(self.chance.choice(self.alive()))

    def let_reconcile(self, consumer: Consumer) -> None:
        groups = self.coordinator.groups
        group = groups.groups.get(GROUP)
        code = check_fetch(group, consumer.member_id, consumer.epoch) if group else ErrorCode.NONE
        consumer.reconcile(may_fetch_offsets=code == ErrorCode.NONE)

    def come(self) -> None:
        if len(self.alive()) < 7:
            instance = self.chance.choice((None, None, "one", "two"))
            consumer = Consumer(next(self._names), instance)
            self.consumers.append(consumer)
            self.subscribe(consumer)

    def resubscribe(self) -> None:
        if self.alive():
            consumer = self.chance.choice(self.alive())
            self.subscribe(consumer)
            consumer.hear(self.coordinator.send(consumer.request(says_all=True)))

    def subscribe(self, consumer: Consumer) -> None:
        by_regex = self.chance.random() < 0.3
        consumer.regex = self.chance.choice(REGEXES) if by_regex else ""
        consumer.names = [] if by_regex else self.chance.sample(TOPICS, self.chance.randint(0, 3))

    def leave(self) -> None:
        if self.alive():
            consumer = self.chance.choice(self.alive())
            request = consumer.request(says_all=False)
            request.member_epoch = -1 if consumer.instance_id is None else self.chance.choice((-1, -2))
            self.coordinator.send(request)
            consumer.is_gone = True

    def crash(self) -> None:
        if self.alive():
            self.chance.choice(self.alive()).is_gone = True

    def advance(self) -> None:
        self.coordinator.advance(self.chance.choice((1, 500, 1_000, 5_000, 5_000, 20_000, 46_000)))

    def confuse(self) -> None:
        """A client speaks for a member, and knows too little of it."""
        if self.alive():
            request = self.chance.choice(self.alive()).request(says_all=False)
            request.member_epoch += self.chance.randint(20, 30)
            self.codes[self.coordinator.send(request).error_code] += 1

    def change_topic(self) -> None:
        name = self.chance.choice(TOPICS)
        topic = self.coordinator.image.topics.get(name)
        if topic is None:
            self.coordinator.topic(name, self.chance.randint(1, 4))
        elif self.chance.random() < 0.3:
            self.coordinator.drop(name)
        elif len(topic.partitions) < 8:
            self.coordinator.topic(name, len(topic.partitions) + 1)

    def restart(self) -> None:
        before = state_of(self.coordinator.groups)
        self.coordinator.restart()
        assert state_of(self.coordinator.groups) == before

    def settle(self) -> None:
        """Everybody behaves, and nothing else happens."""
        for _ in range(60):
            for consumer in self.alive():
                self.send(consumer, is_lossy=False)
                self.let_reconcile(consumer)
                check(self)
            self.coordinator.advance(HEARTBEAT_MS)


def held(crowd: Crowd) -> Iterator[tuple[str, Partitions]]:
    """What the coordinator believes that each member may use."""
    group = crowd.coordinator.groups.groups.get(GROUP)
    for member in group.members.values() if group else ():
        partitions = [
            (topic_id, partition)
            for part in (member.assigned, member.revoking)
            for topic_id, epochs in part.items()
            for partition in epochs
        ]
        assert len(partitions) == len(set(partitions))
        yield member.member_id, set(partitions)


def check(crowd: Crowd) -> None:
    group = crowd.coordinator.groups.groups.get(GROUP)
    if group is None:
        return
    crowd.states.add(group.state)
    by_member = dict(held(crowd))
    owners = Counter(one for partitions in by_member.values() for one in partitions)
    assert not [one for one, count in owners.items() if count > 1], "a partition has two owners"
    assert set(owners) == {(topic_id, one) for topic_id, owned in group._owners.items() for one in owned}
    for consumer in crowd.alive():
        member = group.members.get(consumer.member_id)
        if member is not None and consumer.epoch in (member.epoch, member.previous_epoch) and consumer.epoch:
            assert consumer.owned <= by_member[consumer.member_id], "a member uses what it may not"
    targets = Counter(
        (topic_id, partition)
        for target in group.targets.values()
        for topic_id, partitions in target.items()
        for partition in partitions
    )
    assert not [one for one, count in targets.items() if count > 1], "a partition is meant for two"
    assert group.targets.keys() <= group.members.keys()


def wanted(crowd: Crowd) -> Partitions:
    """All partitions of the topics that a member subscribes to."""
    group = crowd.coordinator.group
    topics = crowd.coordinator.image.topics
    return {
        (topic.topic_id, partition.index)
        for name, topic in topics.items()
        if group.is_subscribed(name)
        for partition in topic.partitions
    }


@pytest.mark.parametrize("seed", range(30))
def test_a_partition_has_one_owner_and_the_group_comes_to_rest(seed: int) -> None:
    crowd = Crowd(seed)
    for _ in range(STEPS):
        crowd.step()
        check(crowd)
    crowd.settle()
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in crowd.codes
    if not crowd.alive():
        return
    group = crowd.coordinator.group
    assert group.state is ConsumerGroupState.STABLE
    assert group.members.keys() == {consumer.member_id for consumer in crowd.alive()}
    assert {one for consumer in crowd.alive() for one in consumer.owned} == wanted(crowd)
    assert sum(len(consumer.owned) for consumer in crowd.alive()) == len(wanted(crowd))


def test_the_crowd_gets_a_group_through_every_state() -> None:
    states: set[ConsumerGroupState] = set()
    codes: Counter[int] = Counter()
    for seed in range(20):
        crowd = Crowd(seed)
        for _ in range(STEPS):
            crowd.step()
            check(crowd)
        states |= crowd.states
        codes += crowd.codes
    assert states == set(ConsumerGroupState) - {ConsumerGroupState.DEAD}
    assert {
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
    } <= codes.keys()
