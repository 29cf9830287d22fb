"""Whatever clients send and whenever they die, a group stays in order and no request waits for ever."""

import random

import pytest

from levada.groups import ClassicGroupState, GroupSettings, JoiningClient
from tests.unit.groups.harness import Coordinator

MANY_MS = 5_000_000


class Crowd:
    """Clients without manners: they know some ids and generations, and send anything in any order."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.coordinator = Coordinator(GroupSettings(max_size=5))
        self.tokens: list[int] = []
        self.ids = ["", "stranger"]

    def step(self) -> None:
        kind = self.chance.choices(("join", "sync", "heartbeat", "leave", "commit", "advance"), (6, 5, 3, 1, 2, 3))[0]
        getattr(self, kind)()
        for token in self.tokens:
            member_id = getattr(self.coordinator.replies.get(token), "member_id", "")
            if member_id and member_id not in self.ids:
                self.ids.append(member_id)

    def join(self) -> None:
        names = self.chance.sample(("range", "sticky", "odd"), self.chance.randint(1, 3))
        joiner = JoiningClient("c", "/::1", self.chance.choice((3, 8, 9)))
        self.tokens.append(
            self.coordinator.join(
                self.member_id(),
                instance=self.instance(),
                protocols={name: self.chance.choice((b"1", b"2")) for name in ("range", *names)},
                joiner=joiner,
                session_ms=self.chance.choice((6_000, 10_000, 90_000)),
                rebalance_ms=self.chance.choice((-1, 0, 10_000, 60_000)),
            )
        )

    def sync(self) -> None:
        assignments = dict.fromkeys(self.ids, b"x")
        token = self.coordinator.sync(self.member_id(), self.generation(), assignments, instance=self.instance())
        self.tokens.append(token)

    def heartbeat(self) -> None:
        self.coordinator.heartbeat(self.member_id(), self.generation(), instance=self.instance())

    def leave(self) -> None:
        self.coordinator.leave(self.member_id(), (self.member_id(), "a"), ("", "b"))

    def commit(self) -> None:
        self.coordinator.commit(self.member_id(), self.generation(), instance=self.instance())

    def advance(self) -> None:
        self.coordinator.advance(self.chance.choice((0, 1, 1_000, 9_999, 30_000, 400_000)))

    def member_id(self) -> str:
        return self.chance.choice(self.ids[-6:])

    def instance(self) -> str | None:
        return self.chance.choice((None, None, None, "a", "b"))

    def generation(self) -> int:
        group = self.coordinator.find()
        return (group.generation if group else 0) + self.chance.choice((0, 0, 0, 0, -1, 1))


def check(coordinator: Coordinator) -> None:
    group = coordinator.find()
    if group is None:
        return
    waiting_to_join = [member for member in group.members.values() if member.join_token is not None]
    waiting_to_sync = [member for member in group.members.values() if member.sync_token is not None]
    assert (group.leader is None) == (not group.members)
    assert group.leader is None or group.leader in group.members
    assert not group.pending.keys() & group.members.keys()
    assert not waiting_to_join or group.state is ClassicGroupState.PREPARING_REBALANCE
    assert not waiting_to_sync or group.state is ClassicGroupState.COMPLETING_REBALANCE
    if group.state is ClassicGroupState.EMPTY:
        assert not group.members
    if group.state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
        assert all(group.protocol_name in member.protocols for member in group.members.values())
    if group.members or group.pending:
        assert coordinator.machine.deadline_ms() is not None
    assert len(waiting_to_join) <= 5


@pytest.mark.parametrize("seed", range(60))
def test_a_group_stays_in_order_and_everyone_is_answered_once(seed: int) -> None:
    crowd = Crowd(seed)
    coordinator = crowd.coordinator
    for _ in range(300):
        crowd.step()
        check(coordinator)
    coordinator.advance(MANY_MS)
    check(coordinator)
    assert all(not coordinator.is_parked(token) for token in crowd.tokens)
    group = coordinator.find()
    assert group is None or group.state is ClassicGroupState.EMPTY
    assert not [reply for reply in coordinator.replies.values() if isinstance(reply, Exception)]


def test_the_same_requests_have_the_same_replies() -> None:
    def replies() -> list[object]:
        crowd = Crowd(7)
        for _ in range(200):
            crowd.step()
        return list(crowd.coordinator.replies.items())

    assert replies() == replies()


def test_the_crowd_gets_a_group_through_every_state() -> None:
    seen: dict[ClassicGroupState, None] = {}
    for seed in range(60):
        crowd = Crowd(seed)
        for _ in range(300):
            crowd.step()
            group = crowd.coordinator.find()
            if group is not None:
                seen[group.state] = None
    assert ClassicGroupState.STABLE in seen
    assert len(seen) == len(ClassicGroupState) - 1
