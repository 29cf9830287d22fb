"""Groups on an event loop: who waits is answered, who went away is not, and time passes by itself."""

import asyncio
from collections.abc import Coroutine

from penstock.broker.group_coordinator import GroupCoordinator
from penstock.groups import Groups, GroupSettings, Joiner
from penstock.model.errors import ErrorCode
from penstock.protocol.messages.heartbeat import HeartbeatRequest
from penstock.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.messages.leave_group import MemberIdentity
from penstock.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

CLIENT = Joiner("c", needs_member_id_first=False, can_skip_assignment=False)
WAIT_SECONDS = 10


class LoopClock:
    """The loop's own time, so that timers and deadlines agree."""

    def now_ms(self) -> int:
        return self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def perf_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000


def new_coordinator(initial_rebalance_delay_ms: int = 0) -> GroupCoordinator:
    settings = GroupSettings(initial_rebalance_delay_ms=initial_rebalance_delay_ms, min_session_timeout_ms=1)
    numbers = iter(range(1, 1_000))
    return GroupCoordinator(Groups(settings, lambda size: next(numbers).to_bytes(size, "big")), LoopClock())


def join_request(member_id: str = "", session_timeout_ms: int = 60_000, metadata: bytes = b"") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def sync_request(member_id: str, generation: int, *assigned: str) -> SyncGroupRequest:
    assignments = [SyncGroupRequestAssignment(member_id=one, assignment=one.encode()) for one in assigned]
    return SyncGroupRequest(group_id="g", generation_id=generation, member_id=member_id, assignments=assignments)


def heartbeat(coordinator: GroupCoordinator, member_id: str, generation: int = 1) -> ErrorCode:
    return coordinator.heartbeat(HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id))


def run(main: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(main, WAIT_SECONDS))


async def join_two(coordinator: GroupCoordinator, session_timeout_ms: int = 60_000) -> tuple[str, str]:
    request = join_request(session_timeout_ms=session_timeout_ms)
    first, second = await asyncio.gather(coordinator.join(request, CLIENT), coordinator.join(request, CLIENT))
    assert (first.generation_id, second.generation_id) == (1, 1)
    return first.member_id, second.member_id


def test_parked_requests_are_answered_when_their_time_has_come() -> None:
    async def main() -> None:
        coordinator = new_coordinator()
        leader, follower = await join_two(coordinator)
        waiting = coordinator.sync(sync_request(follower, 1))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert (await coordinator.sync(sync_request(leader, 1, leader, follower))).assignment == leader.encode()
        assert (await waiting).assignment == follower.encode()
        assert heartbeat(coordinator, leader) == ErrorCode.NONE
        coordinator.close()

    run(main())


def test_the_first_rebalance_is_delayed_on_the_loop() -> None:
    async def main() -> None:
        coordinator = new_coordinator(initial_rebalance_delay_ms=50)
        started_ms = LoopClock().monotonic_ms()
        await coordinator.join(join_request(), CLIENT)
        assert LoopClock().monotonic_ms() - started_ms >= 50
        coordinator.close()

    run(main())


def test_a_client_that_went_away_while_it_waited_is_not_answered_and_its_session_ends() -> None:
    async def main() -> None:
        coordinator = new_coordinator()
        gone = coordinator.join(join_request(session_timeout_ms=30), CLIENT)
        staying = coordinator.join(join_request(), CLIENT)
        gone.cancel()
        reply = await staying
        assert reply.generation_id == 1
        while heartbeat(coordinator, reply.member_id) != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.005)
        again = await coordinator.join(join_request(reply.member_id), CLIENT)
        assert (again.leader, len(again.members)) == (reply.member_id, 1)
        coordinator.close()

    run(main())


def test_a_nearer_deadline_moves_the_timer() -> None:
    async def main() -> None:
        coordinator = new_coordinator(initial_rebalance_delay_ms=60_000)
        far = coordinator.join(join_request(), CLIENT)
        pending = Joiner("c", needs_member_id_first=True, can_skip_assignment=False)
        refusal = await coordinator.join(join_request(session_timeout_ms=20), pending)
        assert refusal.error_code == ErrorCode.MEMBER_ID_REQUIRED
        # The pending id was all that the first rebalance could still wait for.
        assert (await far).generation_id == 1
        coordinator.close()

    run(main())


def test_those_who_remain_hear_of_a_leave_at_once() -> None:
    async def main() -> None:
        coordinator = new_coordinator()
        leader, follower = await join_two(coordinator)
        waiting = coordinator.sync(sync_request(follower, 1))
        assert coordinator.leave("g", [MemberIdentity(member_id=leader)]) == [ErrorCode.NONE]
        assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        coordinator.close()

    run(main())


def test_closing_answers_all_who_wait_and_stops_the_timer() -> None:
    async def main() -> None:
        coordinator = new_coordinator(initial_rebalance_delay_ms=60_000)
        waiting: asyncio.Future[JoinGroupResponse] = coordinator.join(join_request(), CLIENT)
        coordinator.close()
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        assert coordinator._timer is None

    run(main())


def test_a_group_nobody_knows_has_no_offsets() -> None:
    assert new_coordinator().committed("nobody") == {}
