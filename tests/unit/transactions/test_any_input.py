"""Whatever the wire can carry is answered, in every state; what is refused changes nothing."""

import random

import pytest

from levada.model.error_codes import ErrorCode
from levada.transactions import GroupMember
from tests.unit.transactions.harness import ID, A, B, Coordinator

NAMES = ["", ID, "u", "ß" * 200]
IDS = [-1, 0, 999, 1_000, 1_001, 2**63 - 1, -(2**63)]
EPOCHS = [-1, 0, 1, 2, 32_766, 32_767, -32_768]
TIMEOUTS = [-(2**31), -1, 0, 1, 60_000, 900_000, 2**31 - 1]
PARTITIONS = [A, B, ("", -1), ("__consumer_offsets", 2**31 - 1)]


class Stranger:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.coordinator = Coordinator()

    def step(self) -> None:
        """One request; a code other than NONE leaves everything as it was, but for a fence."""
        chance, coordinator = self.chance, self.coordinator
        before = dict(coordinator.machine.transactions)
        name = chance.choice(NAMES)
        at = self.identity(name)
        partitions = chance.choices(PARTITIONS, k=chance.randrange(4))
        match chance.randrange(7):
            case 0:
                claimed = chance.choice([(-1, -1), at])
                code = coordinator.init(name, claimed, chance.choice(TIMEOUTS), chance.randrange(6)).error_code
                if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                    return
            case 1:
                code = coordinator.add(*partitions, name=name, at=at, version=chance.randrange(6))
            case 2:
                coordinator.verify(*partitions, name=name, at=at)
                code = ErrorCode.UNKNOWN_SERVER_ERROR
            case 3:
                commit = chance.random() < 0.5
                code = coordinator.end(commit=commit, name=name, at=at, version=chance.randrange(6)).error_code
            case 4:
                chosen = chance.choices(NAMES, k=chance.randrange(4))
                code = coordinator.group_commit([GroupMember(one, *self.identity(one)) for one in chosen]).error_code
            case 5:
                coordinator.markers_written(name, at[1])
                return
            case _:
                coordinator.write_markers()
                return
        if code:
            assert coordinator.machine.transactions == before

    def identity(self, name: str) -> tuple[int, int]:
        if name in self.coordinator.machine.transactions and self.chance.random() < 0.7:
            return self.coordinator.identity(name)
        return self.chance.choice(IDS), self.chance.choice(EPOCHS)


@pytest.mark.parametrize("seed", range(20))
def test_a_stranger_is_always_answered(seed: int) -> None:
    stranger = Stranger(seed)
    for _ in range(200):
        stranger.step()
        if stranger.chance.random() < 0.02:
            stranger.coordinator.load()
