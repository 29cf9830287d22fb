"""Heartbeats of a member of a classic group, and its farewell."""

import asyncio
import logging
from collections.abc import Callable

from levada.client.cluster import Cluster, Deadline
from levada.client.consumer.background import happens
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.member_state import NOT_YET_IN, MemberState, Phase
from levada.client.consumer.poll_watch import PollWatch
from levada.client.errors import KafkaError
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.leave_group import MANY_MEMBERS_SINCE, LeaveGroupRequest, MemberIdentity

logger = logging.getLogger("levada.client")

FIRST_STATIC = 3
POLL_EXPIRED = "consumer poll timeout has expired."
LEAVE_MS = 5_000
"""How long a LeaveGroup may take that no call waits for."""


class ClassicHeartbeats:
    """Go on whatever the user's code does, until it has not polled for too long."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinatorLookup,
        member: MemberState,
        watch: PollWatch,
        on_answer: Callable[[ErrorCode], None],
    ) -> None:
        self._clock = cluster.world.clock
        self._backoff = cluster.backoff
        self._coordinator = coordinator
        self._member = member
        self._watch = watch
        self._on_answer = on_answer
        self._interval_ms: int = cluster.options["heartbeat.interval.ms"]
        self._session_ms: int = cluster.options["session.timeout.ms"]
        self._request_ms: int = cluster.options["request.timeout.ms"]
        self._began = asyncio.Event()
        self._due_ms = 0.0
        self._heard_ms = 0
        self._failures = 0

    def begin(self) -> None:
        """A new generation has begun, and the session with it."""
        now_ms = self._clock.monotonic_ms()
        self._heard_ms = now_ms
        self._due_ms = now_ms + self._interval_ms
        self._failures = 0
        self._began.set()

    async def run(self) -> None:
        while True:
            if self._member.phase is not Phase.IN:
                await self._began.wait()
                self._began.clear()
                continue
            wait_ms = min(self._due_ms - self._clock.monotonic_ms(), self._watch.remaining_ms())
            if wait_ms > 0:
                await happens(self._began, wait_ms)
            elif self._watch.is_late:
                await self._leave_late()
            else:
                await self._beat()

    def answered(self, code: ErrorCode) -> None:
        """What the coordinator says of this member's generation, to a heartbeat or a commit."""
        member = self._member
        if code != ErrorCode.REBALANCE_IN_PROGRESS:
            member.leave(keeps_id=code != ErrorCode.UNKNOWN_MEMBER_ID)
        logger.info("group=%r member=%r was told %s", member.group_id, member.member_id, code.name)
        self._on_answer(code)

    async def leave(self, reason: str, deadline: Deadline, *, leaves: bool | None, why: str = "") -> None:
        """Say good-bye; a static member keeps its place, unless it is told not to."""
        member = self._member
        member_id, is_static = member.member_id, member.instance_id is not None
        member.leave(why or NOT_YET_IN)
        if not member_id or not (leaves if leaves is not None else not is_static):
            return
        try:
            async with asyncio.timeout(min(deadline.remaining_ms(), self._request_ms) / 1_000):
                await self._say_leave(member_id, reason)
        except (KafkaError, TimeoutError) as error:
            # The session runs out by itself.
            logger.debug("leaving group=%r failed: %s", member.group_id, error)

    async def _beat(self) -> None:
        member = self._member
        generation = member.generation
        self._due_ms = self._clock.monotonic_ms() + self._interval_ms
        try:
            code = await self._say_beat(generation)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._fail(error)
            return
        if member.generation != generation or member.phase is not Phase.IN:
            return
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self._heard_ms = self._clock.monotonic_ms()
            self._failures = 0
        if code != ErrorCode.NONE:
            refusal = self._coordinator.refusal(code)
            if refusal.retriable:
                self._fail(refusal)
            else:
                self.answered(refusal.code or ErrorCode.UNKNOWN_SERVER_ERROR)

    def _fail(self, error: KafkaError) -> None:
        """Try again soon; a member not heard for a session is probably out, and should look for the coordinator."""
        self._failures += 1
        now_ms = self._clock.monotonic_ms()
        self._due_ms = now_ms + min(self._backoff.pause_ms(self._failures), self._interval_ms)
        logger.debug("heartbeat failed group=%r: %s", self._member.group_id, error)
        if now_ms - self._heard_ms >= self._session_ms:
            logger.warning(
                "no answer to heartbeats for session.timeout.ms=%d group=%r: %s",
                self._session_ms, self._member.group_id, error,
            )  # fmt: skip
            self._heard_ms = now_ms
            self._coordinator.forget()

    async def _say_beat(self, generation: int) -> int:
        member = self._member

        def build(version: int) -> HeartbeatRequest:
            return HeartbeatRequest(
                group_id=member.group_id,
                generation_id=generation,
                member_id=member.member_id,
                group_instance_id=member.instance_id,
            )

        at_least = FIRST_STATIC if member.instance_id is not None else 0
        limit_ms = min(self._request_ms, self._session_ms)
        response = await self._coordinator.ask(ApiKey.HEARTBEAT, build, timeout_ms=limit_ms, at_least=at_least)
        return response.error_code

    async def _leave_late(self) -> None:
        """The user's code takes too long: let others have the partitions (KIP-62)."""
        why = self._watch.warning()
        logger.warning("group=%r: %s", self._member.group_id, why)
        told = f"the offsets are not committed: {why}. The next poll joins the group again"
        await self.leave(POLL_EXPIRED, Deadline(self._clock, LEAVE_MS), leaves=None, why=told)
        self._on_answer(ErrorCode.UNKNOWN_MEMBER_ID)

    async def _say_leave(self, member_id: str, reason: str) -> None:
        member = self._member

        def build(version: int) -> LeaveGroupRequest:
            if version < MANY_MEMBERS_SINCE:
                return LeaveGroupRequest(group_id=member.group_id, member_id=member_id)
            identity = MemberIdentity(member_id=member_id, group_instance_id=member.instance_id, reason=reason)
            return LeaveGroupRequest(group_id=member.group_id, members=[identity])

        response = await self._coordinator.ask(ApiKey.LEAVE_GROUP, build)
        codes = [response.error_code, *(member.error_code for member in response.members)]
        for code in codes:
            if code != ErrorCode.NONE:
                raise self._coordinator.refusal(code)
