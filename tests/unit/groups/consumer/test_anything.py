"""Whatever is sent is answered, and what is written can be read."""

import random
from typing import Any

import pytest

from levada.groups.consumer import ConsumerGroupSettings, Interval
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)
from tests.unit.groups.consumer import classic_harness
from tests.unit.groups.consumer.harness import GROUP, Coordinator, state_of

IDS = ("", "m", "n", "o", "c", " ")
INSTANCES = (None, None, "one", "two", "")
TEXTS = (None, "", "a", "x.*", "[", "\0", "ö", "a" * 300)
METADATA = (None, None, b"", b"x", b"\0\1\0\0\0\1\0\1a\0\0\0\0\0\0\0\0", b"\xff\xff", bytes(40))


class Anything:
    """Requests made of parts that make sense and parts that do not."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.coordinator = Coordinator(ConsumerGroupSettings(assignment_interval=Interval(0, 0, 15_000), max_size=4))
        self.coordinator.topic("a", 3)
        self.coordinator.topic("x1", 2)

    def step(self) -> None:
        kind = self.chance.choices((self.heartbeat, self.classic, self.advance, self.restart), (10, 6, 2, 1))[0]
        kind()
        self.coordinator.groups.describe(GROUP, self.coordinator.now_ms)

    def epoch(self) -> int:
        group = self.coordinator.groups.groups.get(GROUP)
        return self.chance.choice((0, 0, 0, -1, -2, -3, 2**31 - 1, -(2**31), group.epoch if group else 1, 2, 3))

    def heartbeat(self) -> None:
        pick = self.chance.choice
        topics = [
            RequestTopicPartitions(
                topic_id=pick([*self.coordinator.image.topic_names, bytes(16)]),
                partitions=[pick((0, 1, 2, -1, 2**31 - 1)) for _ in range(self.chance.randint(0, 3))],
            )
            for _ in range(self.chance.randint(0, 2))
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=pick((GROUP, GROUP, GROUP, GROUP, "", " ")),
            member_id=pick(IDS),
            member_epoch=self.epoch(),
            instance_id=pick(INSTANCES),
            rack_id=pick((None, None, "r", "")),
            rebalance_timeout_ms=pick((1_000, 60_000, 0, -1, -(2**31), 2**31 - 1)),
            subscribed_topic_names=pick((None, [], ["a"], ["a", "a", "x1"], ["gone"], [""])),
            subscribed_topic_regex=pick(TEXTS),
            server_assignor=pick((None, None, "range", "uniform", "odd")),
            topic_partitions=pick((None, [], [], topics)),
        )
        self.coordinator.send(request, pick((0, 1)))

    def classic(self) -> None:
        pick = self.chance.choice
        member_id, instance = pick(IDS), pick(INSTANCES)
        kind = pick(("join", "join", "sync", "beat", "leave"))
        if kind == "join":
            fields: dict[str, Any] = {
                "instance": instance,
                "protocols": pick((("range",), ("range", "sticky"), (), ("",), ("range", "range"))),
                "type_": pick(("consumer", "consumer", "connect", "")),
                "metadata": pick(METADATA),
                "version": pick((0, 3, 4, 9)),
            }
            classic_harness.join(self.coordinator, member_id, "a", **fields)
        elif kind == "sync":
            classic_harness.sync(self.coordinator, member_id, self.epoch(), instance=instance)
        elif kind == "beat":
            classic_harness.beat(self.coordinator, member_id, self.epoch(), instance=instance)
        else:
            classic_harness.leave(self.coordinator, (member_id, instance), (pick(IDS), None))

    def advance(self) -> None:
        self.coordinator.advance(self.chance.choice((0, 1, 1_000, 50_000)))

    def restart(self) -> None:
        before = state_of(self.coordinator.groups)
        self.coordinator.restart()
        assert state_of(self.coordinator.groups) == before


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_sent_is_answered(seed: int) -> None:
    anything = Anything(seed)
    for _ in range(150):
        anything.step()
