"""The same with members of both protocols in one group."""

from dataclasses import dataclass, field

import pytest

from levada.groups.consumer import ConsumerGroupSettings, ConsumerGroupState, MigrationPolicy
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer import classic_harness
from tests.unit.groups.consumer.harness import GROUP
from tests.unit.groups.consumer.test_at_random import (
    HEARTBEAT_MS,
    STEP_WEIGHTS,
    STEPS,
    TOPICS,
    Consumer,
    Crowd,
    Partitions,
    check,
    held,
    wanted,
)


@dataclass
class ClassicConsumer:
    """Either gives up everything before it joins again, or only what it must."""

    member_id: str
    names: list[str]
    is_eager: bool
    generation: int = -1
    owned: Partitions = field(default_factory=set)
    must_join: bool = True


class MixedCrowd(Crowd):
    step_weights = {**STEP_WEIGHTS, "come_classic": 4, "beat_classic": 40, "leave_classic": 1, "crash_classic": 1}

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ConsumerGroupSettings(migration_policy=MigrationPolicy.UPGRADE))
        self.classics: list[ClassicConsumer] = []

    def come_classic(self) -> None:
        if len(self.classics) < 4:
            names = self.chance.sample(TOPICS, self.chance.randint(1, 3))
            self.classics.append(ClassicConsumer(next(self._names), names, bool(self.chance.getrandbits(1))))

    def beat_classic(self) -> None:
        if self.classics:
            self.let_beat(self.chance.choice(self.classics))

    def leave_classic(self) -> None:
        if self.classics and GROUP in self.coordinator.groups.groups:
            gone = self.classics.pop(self.chance.randrange(len(self.classics)))
            classic_harness.leave(self.coordinator, (gone.member_id, None))

    def crash_classic(self) -> None:
        if self.classics:
            self.classics.pop(self.chance.randrange(len(self.classics)))

    def let_beat(self, classic: ClassicConsumer) -> None:
        group = self.coordinator.groups.groups.get(GROUP)
        if group is None or not group.members:
            # A classic group would take its place.
            classic.owned = set()
            return
        code = classic_harness.beat(self.coordinator, classic.member_id, classic.generation)
        self.codes[code] += 1
        if code == ErrorCode.NONE and not classic.must_join:
            return
        if code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS) or classic.is_eager:
            classic.owned = set()
        self.let_join(classic)

    def let_join(self, classic: ClassicConsumer) -> None:
        image = self.coordinator.image
        classic.owned = {one for one in classic.owned if one[0] in image.topic_names}
        owned: dict[str, list[int]] = {}
        for topic_id, partition in sorted(classic.owned):
            owned.setdefault(image.topic_names[topic_id], []).append(partition)
        joined = classic_harness.join(self.coordinator, classic.member_id, *classic.names, owned=owned)
        self.codes[joined.error_code] += 1
        assert joined.error_code == ErrorCode.NONE, joined
        classic.generation, classic.must_join = joined.generation_id, True
        if self.chance.random() < 0.1:
            return
        synced = classic_harness.sync(self.coordinator, classic.member_id, classic.generation)
        assert synced.error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS), synced
        if synced.error_code == ErrorCode.NONE:
            classic.must_join = False
            classic.owned = {
                (image.topics[topic].topic_id, partition)
                for topic, partitions in classic_harness.assigned(synced.assignment).items()
                for partition in partitions
            }

    def settle(self) -> None:
        for _ in range(60):
            for consumer in self.alive():
                self.send(consumer, is_lossy=False)
                self.let_reconcile(consumer)
            for classic in self.classics:
                self.let_beat(classic)
            check(self)
            check_classics(self)
            self.coordinator.advance(HEARTBEAT_MS)


def check_classics(crowd: MixedCrowd) -> None:
    group = crowd.coordinator.groups.groups.get(GROUP)
    by_member = dict(held(crowd))
    for classic in crowd.classics:
        member = group.members.get(classic.member_id) if group else None
        if member is not None and member.epoch == classic.generation:
            assert classic.owned <= by_member[classic.member_id], "a classic member uses what it may not"


@pytest.mark.parametrize("seed", range(20))
def test_a_partition_has_one_owner_and_the_group_comes_to_rest(seed: int) -> None:
    crowd = MixedCrowd(seed)
    for _ in range(STEPS):
        crowd.step()
        check(crowd)
        check_classics(crowd)
    crowd.settle()
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in crowd.codes
    if not crowd.alive():
        return
    group = crowd.coordinator.group
    assert group.state is ConsumerGroupState.STABLE
    everybody: list[Consumer | ClassicConsumer] = [*crowd.alive(), *crowd.classics]
    assert group.members.keys() == {one.member_id for one in everybody}
    assert group.classic_count == len(crowd.classics)
    assert {one for member in everybody for one in member.owned} == wanted(crowd)
    assert sum(len(member.owned) for member in everybody) == len(wanted(crowd))
