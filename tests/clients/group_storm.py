"""Our consumers in one simulated group through cut links, dead processes and a broker that crashes.

Usage: python -m tests.clients.group_storm FIRST_SEED COUNT      prints one digest a line
"""

import asyncio
import random
import sys
from typing import Any

from levada.client.types import TopicPartition
from levada.sim.world import HostCrashed
from tests.clients.simulated import BROKER, SimMember, Town, simulate, until

TOPIC, PARTITIONS, MEMBERS = "storm", 5, 3
ROUNDS = 8
PLANS: list[list[dict[str, Any]]] = [
    [{"partition_assignment_strategy": "range"}],
    [{"partition_assignment_strategy": "cooperative-sticky"}],
    [{"partition_assignment_strategy": "sticky"}],
    [{"group_protocol": "consumer"}],
    [{"partition_assignment_strategy": "range"}, {"group_protocol": "consumer"}],
    [
        {"partition_assignment_strategy": "cooperative-sticky,range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
    ],
]
"""What the members of a run are like; which of them is left to chance."""


class Storm:
    def __init__(self, town: Town, seed: int) -> None:
        self.town = town
        self.chance = random.Random(f"client storm {seed}")
        self.plans = PLANS[seed % len(PLANS)]
        self.members: list[SimMember] = []
        self.gone: list[SimMember] = []
        self.sent = [0] * PARTITIONS
        self.committed: dict[TopicPartition, int] = {}
        self.is_over = False

    async def run(self) -> None:
        await self.town.topic(TOPIC, PARTITIONS)
        for _ in range(MEMBERS):
            self.add()
        watching = asyncio.ensure_future(self.watch())
        for _ in range(ROUNDS):
            await self.produce()
            await self.disturb()
            await asyncio.sleep(self.chance.random() * 12)
            if watching.done():
                watching.result()
        await self.produce()
        for member in self.members:
            member.is_polling = True
        await until(self.is_settled)
        wanted = {TopicPartition(TOPIC, index): count for index, count in enumerate(self.sent)}
        await until(lambda: self.committed == wanted)
        self.is_over = True
        await watching
        self.check_values()

    def add(self) -> None:
        options = {"max_poll_interval_ms": 20_000, **self.chance.choice(self.plans)}
        options["enable_auto_commit"] = self.chance.random() < 0.5
        options["auto_commit_interval_ms"] = self.chance.choice((0, 1_000, 5_000))
        self.members.append(self.town.member(TOPIC, **options).start())

    async def produce(self) -> None:
        for partition in range(PARTITIONS):
            count = self.chance.randrange(4)
            first = self.sent[partition]
            values = [f"{partition}-{first + number}".encode() for number in range(count)]
            if values:
                await self.town.produce(TOPIC, partition, values)
            self.sent[partition] += count

    async def disturb(self) -> None:
        network, chance = self.town.network, self.chance
        victim = chance.choice(self.members)
        trouble = chance.choice(("reset", "partition", "broker", "dies", "joins", "leaves", "slow", "stall", "nothing"))
        if trouble == "reset":
            for _ in range(chance.randrange(1, 8)):
                network.reset(BROKER, victim.host)
                await asyncio.sleep(chance.random())
        elif trouble == "partition":
            network.partition(BROKER, victim.host)
            await asyncio.sleep(chance.random() * 15)
            network.heal_all()
        elif trouble == "stall":
            network.stall(BROKER, victim.host)
            await asyncio.sleep(chance.random() * 15)
        elif trouble == "broker":
            self.town.crash_broker()
            await asyncio.sleep(chance.random() * 10)
            self.town.start_broker()
        elif trouble == "dies":
            self.town.simulation.crash(victim.host, power_loss=False)
            self.replace(victim)
        elif trouble == "joins":
            self.add()
        elif trouble == "leaves":
            await victim.do(victim.consumer.close())
            self.replace(victim)
        elif trouble == "slow":
            victim.is_polling = False
            await asyncio.sleep(chance.random() * 40)
            victim.is_polling = True

    def replace(self, victim: SimMember) -> None:
        self.members.remove(victim)
        self.gone.append(victim)
        self.add()

    def is_settled(self) -> bool:
        for member in self.members:
            assert member.failure is None, member.failure
        owned = sorted(partition for member in self.members for partition in member.partitions)
        return owned == list(range(PARTITIONS))

    async def watch(self) -> None:
        """Committed offsets never go back."""
        observer = self.town.member(TOPIC)
        partitions = [TopicPartition(TOPIC, index) for index in range(PARTITIONS)]
        while not self.is_over:
            try:
                found = await observer.do(observer.consumer.committed(partitions, timeout=60))
            except HostCrashed:
                continue
            now = {partition: 0 if each is None else each.offset for partition, each in found.items()}
            for partition, offset in now.items():
                before = self.committed.get(partition, 0)
                assert offset >= before, f"{partition} went back from {before} to {offset}"
            self.committed = now
            await asyncio.sleep(0.3)

    def check_values(self) -> None:
        """Everything was read by a member, and each member read each partition in order."""
        everybody = [*self.members, *self.gone]
        read = {value for member in everybody for value in member.values}
        sent = {f"{index}-{number}".encode() for index, count in enumerate(self.sent) for number in range(count)}
        assert read == sent, f"lost: {sorted(sent - read)}"
        if not any("group_protocol" in plan for plan in self.plans):
            owners: dict[tuple[int, int], SimMember] = {}
            for member in everybody:
                for had in member.had:
                    assert owners.setdefault(had, member) is member, f"two members had {had}"


def run_storm(seed: int) -> str:
    async def main(town: Town) -> None:
        await Storm(town, seed).run()

    return simulate(main, seed)


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    for seed in range(first, first + count):
        print(seed, run_storm(seed), flush=True)
