"""Groups on an event loop: a request that waits is answered unless its client went away, and time passes by itself."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from errno import EIO
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest

from levada.groups import Committed, CommittedOffset, GroupSettings, JoiningClient, commit_record
from levada.model.error_codes import ErrorCode
from levada.model.errors import CoordinatorLoadInProgress, NotCoordinator, UnknownServerError
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from levada.world.disk import AsyncDisk, File
from tests.unit.broker.hosted_groups import coordinator_of, lead, loaded, offsets_partition

CLIENT = JoiningClient("c", "/::1", 3)
WAIT_SECONDS = 10


class LoopClock:
    """The loop's own time, so that timers and deadlines agree."""

    def now_ms(self) -> int:
        return self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def perf_ns(self) -> int:
        return self.monotonic_ms() * 1_000_000


class Coordinator:
    """One that is loaded, spoken to in few words."""

    def __init__(
        self, directory: Path, initial_rebalance_delay_ms: int = 0, flushed_by: AsyncDisk | None = None
    ) -> None:
        self.settings = GroupSettings(initial_rebalance_delay_ms=initial_rebalance_delay_ms, min_session_timeout_ms=1)
        self.partition = offsets_partition(directory, flushed_by=flushed_by)
        self.inner = coordinator_of(self.settings, LoopClock())

    async def load(self) -> "Coordinator":
        await loaded(self.inner, self.partition)
        return self

    def join(self, request: JoinGroupRequest, joiner: JoiningClient) -> "asyncio.Future[JoinGroupResponse]":
        return self.inner.submit("g", lambda machine, token, now_ms: machine.join(token, request, joiner, now_ms))

    def sync(self, request: SyncGroupRequest) -> "asyncio.Future[SyncGroupResponse]":
        return self.inner.submit("g", lambda machine, token, now_ms: machine.sync(token, request, now_ms))

    async def heartbeat(self, member_id: str, generation: int = 1) -> ErrorCode:
        request = HeartbeatRequest(group_id="g", generation_id=generation, member_id=member_id)
        code: ErrorCode = await self.inner.submit(
            "g", lambda machine, token, now_ms: machine.heartbeat(token, request, now_ms)
        )
        return code

    async def leave(self, member_id: str) -> list[ErrorCode]:
        leaving = [MemberIdentity(member_id=member_id)]
        codes: list[ErrorCode] = await self.inner.submit(
            "g", lambda machine, token, now_ms: machine.leave(token, "g", leaving, now_ms)
        )
        return codes

    def commit(self, offset: int, metadata: str = "") -> "asyncio.Future[list[ErrorCode]]":
        request = OffsetCommitRequest(group_id="g", member_id="", topics=[])
        records = [commit_record("g", "topic", 0, CommittedOffset(offset, 0, metadata, 0))]
        return self.inner.submit(
            "g", lambda machine, token, now_ms: machine.commit(token, request, 10, records, now_ms)
        )

    def committed(self) -> int | None:
        [machine] = self.inner.machines()
        committed = machine.offsets.of("g").get("topic", {}).get(0)
        return None if committed is None else committed.offset


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


def run(main: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(main, WAIT_SECONDS))


async def join_two(coordinator: Coordinator, session_timeout_ms: int = 60_000) -> tuple[str, str]:
    request = join_request(session_timeout_ms=session_timeout_ms)
    first, second = await asyncio.gather(coordinator.join(request, CLIENT), coordinator.join(request, CLIENT))
    assert (first.generation_id, second.generation_id) == (1, 1)
    return first.member_id, second.member_id


def test_parked_requests_are_answered_when_their_time_has_come(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path).load()
        leader, follower = await join_two(coordinator)
        waiting = coordinator.sync(sync_request(follower, 1))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert (await coordinator.sync(sync_request(leader, 1, leader, follower))).assignment == leader.encode()
        assert (await waiting).assignment == follower.encode()
        assert await coordinator.heartbeat(leader) == ErrorCode.NONE
        coordinator.inner.close()

    run(main())


def test_the_first_rebalance_is_delayed_on_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path, initial_rebalance_delay_ms=50).load()
        started_ms = LoopClock().monotonic_ms()
        await coordinator.join(join_request(), CLIENT)
        assert LoopClock().monotonic_ms() - started_ms >= 50
        coordinator.inner.close()

    run(main())


def test_a_client_that_went_away_while_it_waited_is_not_answered_and_its_session_ends(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path).load()
        gone = coordinator.join(join_request(session_timeout_ms=30), CLIENT)
        staying = coordinator.join(join_request(), CLIENT)
        gone.cancel()
        reply = await staying
        assert reply.generation_id == 1
        while await coordinator.heartbeat(reply.member_id) != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0.005)
        again = await coordinator.join(join_request(reply.member_id), CLIENT)
        assert (again.leader, len(again.members)) == (reply.member_id, 1)
        coordinator.inner.close()

    run(main())


def test_a_nearer_deadline_moves_the_timer(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path, initial_rebalance_delay_ms=60_000).load()
        far = coordinator.join(join_request(), CLIENT)
        pending = JoiningClient("c", "/::1", 8)
        refusal = await coordinator.join(join_request(session_timeout_ms=20), pending)
        assert refusal.error_code == ErrorCode.MEMBER_ID_REQUIRED
        # The pending id was all that the first rebalance could still wait for.
        assert (await far).generation_id == 1
        coordinator.inner.close()

    run(main())


def test_those_who_remain_hear_of_a_leave_at_once(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path).load()
        leader, follower = await join_two(coordinator)
        waiting = coordinator.sync(sync_request(follower, 1))
        assert await coordinator.leave(leader) == [ErrorCode.NONE]
        assert (await waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        coordinator.inner.close()

    run(main())


def test_closing_answers_all_who_wait_and_stops_the_timer(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path, initial_rebalance_delay_ms=60_000).load()
        waiting: asyncio.Future[JoinGroupResponse] = coordinator.join(join_request(), CLIENT)
        coordinator.inner.close()
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR

    run(main())


def test_a_restarted_coordinator_knows_what_was_committed_and_who_was_there(tmp_path: Path) -> None:
    async def main() -> None:
        first = await Coordinator(tmp_path).load()
        leader, follower = await join_two(first)
        syncs = first.sync(sync_request(follower, 1)), first.sync(sync_request(leader, 1, leader, follower))
        await asyncio.gather(*syncs)
        first.inner.close()
        second = Coordinator(tmp_path)
        with pytest.raises(NotCoordinator):
            second.commit(1)
        second.inner.follow(1, {0: second.partition})
        with pytest.raises(CoordinatorLoadInProgress):
            second.commit(1)
        await second.load()
        assert await second.heartbeat(leader) == ErrorCode.NONE
        assert (await second.sync(sync_request(follower, 1))).assignment == follower.encode()
        second.inner.close()

    run(main())


def test_a_coordinator_that_lost_its_partition_sends_members_away_and_begins_anew(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path, initial_rebalance_delay_ms=60_000).load()
        assert await coordinator.commit(5) == [ErrorCode.NONE]
        waiting = coordinator.join(join_request(), CLIENT)
        lead(coordinator.partition, epoch=1, leader=2)
        coordinator.inner.follow(1, {0: coordinator.partition})
        assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
        with pytest.raises(NotCoordinator):
            coordinator.commit(6)
        lead(coordinator.partition, epoch=2)
        await coordinator.load()
        assert coordinator.committed() == 5
        assert await coordinator.commit(7) == [ErrorCode.NONE]
        coordinator.inner.close()

    run(main())


def test_a_commit_that_cannot_be_written_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path).load()
        assert await coordinator.commit(5) == [ErrorCode.NONE]
        coordinator.partition.log.reconfigure(replace(coordinator.partition.log.config, max_message_bytes=100))
        with pytest.raises(UnknownServerError):
            await coordinator.commit(6, metadata="x" * 100)
        assert coordinator.committed() == 5
        coordinator.inner.close()

    run(main())


class HeldDisk:
    """A device that takes its time: a sync ends when it is told to, well or badly."""

    def __init__(self) -> None:
        self.syncs: list[asyncio.Future[None]] = []

    async def sync(self, file: File) -> None:
        self.syncs.append(asyncio.get_running_loop().create_future())
        await self.syncs[-1]

    async def sync_directory(self, path: str) -> None:
        pass

    async def go_on_until(self, answered: "asyncio.Future[Any]", error: OSError | None = None) -> None:
        """End one sync after the other, up to the last that a request waits for."""
        while not answered.done():
            for sync in self.syncs:
                if error is None:
                    sync.set_result(None)
                else:
                    sync.set_exception(error)
            self.syncs.clear()
            await asyncio.sleep(0)


def test_a_commit_is_answered_when_it_is_on_the_device_if_the_log_is_to_be_flushed(tmp_path: Path) -> None:
    async def main() -> None:
        disk = HeldDisk()
        coordinator = await Coordinator(tmp_path, flushed_by=cast("AsyncDisk", disk)).load()
        first = coordinator.commit(5)
        await asyncio.sleep(0)
        # Of what the first flush brings to the device the second commit is no part.
        second = coordinator.commit(6)
        await asyncio.sleep(0.01)
        assert not first.done()
        await disk.go_on_until(first)
        assert await first == [ErrorCode.NONE]
        await asyncio.sleep(0.01)
        assert not second.done()
        await disk.go_on_until(second)
        assert await second == [ErrorCode.NONE]
        assert coordinator.committed() == 6
        coordinator.inner.close()

    run(main())


def test_what_a_dead_broker_left_is_told_when_it_is_on_the_device(tmp_path: Path) -> None:
    async def main() -> None:
        dead = await Coordinator(tmp_path).load()
        assert await dead.commit(5) == [ErrorCode.NONE]
        disk = HeldDisk()
        coordinator = await Coordinator(tmp_path, flushed_by=cast("AsyncDisk", disk)).load()
        wanted = OffsetFetchRequestGroup(group_id="g", topics=None)
        told: asyncio.Future[ErrorCode | Committed] = coordinator.inner.submit(
            "g", lambda machine, token, _: machine.committed(token, wanted)
        )
        await asyncio.sleep(0.01)
        assert not told.done()
        await disk.go_on_until(told)
        assert coordinator.committed() == 5
        coordinator.inner.close()
        dead.inner.close()

    run(main())


def test_a_coordinator_whose_log_cannot_be_flushed_sends_everybody_away(tmp_path: Path) -> None:
    async def main() -> None:
        disk = HeldDisk()
        coordinator = await Coordinator(tmp_path, flushed_by=cast("AsyncDisk", disk)).load()
        waiting = coordinator.commit(5)
        behind = asyncio.ensure_future(coordinator.heartbeat("stranger"))
        await disk.go_on_until(waiting, OSError(EIO, "broken"))
        with pytest.raises(NotCoordinator):
            await waiting
        with pytest.raises(NotCoordinator):
            await behind
        with pytest.raises(NotCoordinator):
            coordinator.commit(6)
        # Nor is it taken up again while nothing has changed.
        coordinator.inner.follow(1, {0: coordinator.partition})
        assert coordinator.inner.machines() == []
        with pytest.raises(NotCoordinator):
            coordinator.commit(7)
        coordinator.inner.close()

    run(main())


def test_a_reply_waits_until_its_records_are_committed(tmp_path: Path) -> None:
    async def main() -> None:
        coordinator = await Coordinator(tmp_path).load()
        log = coordinator.partition.log
        set_high_watermark = log.set_high_watermark
        with patch.object(type(log), "set_high_watermark", lambda *_: None):
            waiting = coordinator.commit(5)
            behind = asyncio.ensure_future(coordinator.heartbeat("stranger"))
            await asyncio.sleep(0)
            assert not waiting.done()
        set_high_watermark(log.end_offset)
        coordinator.partition.notify(0)
        assert await waiting == [ErrorCode.NONE]
        assert await behind == ErrorCode.UNKNOWN_MEMBER_ID
        coordinator.inner.close()

    run(main())
