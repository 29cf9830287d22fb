"""ConsumerGroupHeartbeat: how a member joins, stays in and leaves a group whose coordinator assigns (KIP-848)."""

import asyncio
import logging
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable
from enum import Enum, auto

from levada.client.cluster import Cluster, Deadline
from levada.client.consumer.background import happens
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.kip848_report import JOINING, LEAVING, LEAVING_FOR_NOW, Kip848Report
from levada.client.consumer.member_state import NOT_YET_IN, MemberState
from levada.client.consumer.poll_watch import PollWatch
from levada.client.consumer.subscription import Mode
from levada.client.errors import KafkaError, UnsupportedVersion
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.messages.consumer_group_heartbeat import (
    OWN_MEMBER_ID_SINCE,
    PATTERNS_SINCE,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

logger = logging.getLogger("levada.client")

FENCED = (
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
TO_TELL = (ErrorCode.TOPIC_AUTHORIZATION_FAILED,)
"""The user must know, and the next heartbeat may succeed all the same."""
LEAVE_MS = 5_000
OLD_BROKER = "group.protocol=consumer needs brokers of Kafka 4.0 or newer; set group.protocol=classic"


class HeartbeatState(Enum):
    OUT = auto()
    """Wants nothing from the group."""
    ACTIVE = auto()
    """Joins or is in."""
    LOST = auto()
    """The group has gone on; waits until the user has been told."""


class Kip848Heartbeats:
    """Go on whatever the user's code does, until it has not polled for too long."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinatorLookup,
        member: MemberState,
        report: Kip848Report,
        watch: PollWatch,
    ) -> None:
        self.state = HeartbeatState.OUT
        self.on_change: Callable[[], None] = lambda: None
        self.target: Assignment | None = None
        """What the coordinator wants this member to have."""
        self.complaint: KafkaError | None = None
        """For the user's next poll; the heartbeats go on unless it is fatal."""
        self._clock = cluster.world.clock
        self._entropy = cluster.world.entropy
        self._backoff = cluster.backoff
        self._coordinator = coordinator
        self._member = member
        self._report = report
        self._watch = watch
        self._request_ms: int = cluster.options["request.timeout.ms"]
        self._epoch = JOINING
        self._life = 0
        """Grows when the member joins or leaves, so that answers of before are known for what they are."""
        self._hurry = asyncio.Event()
        self._due_ms = 0.0
        self._failures = 0

    def join(self) -> None:
        """Begin anew; what was owned has been given up."""
        self._life += 1
        self._epoch = JOINING
        self.target = None
        self._report.forget()
        self._report.ids.clear()
        self._failures = 0
        self.state = HeartbeatState.ACTIVE
        self.hurry()

    def hurry(self) -> None:
        """Say at once what there is to say."""
        self._due_ms = 0.0
        self._hurry.set()

    async def run(self) -> None:
        while True:
            if self.state is not HeartbeatState.ACTIVE:
                await self._hurry.wait()
                self._hurry.clear()
                continue
            late_ms = self._watch.remaining_ms() if self._epoch > JOINING else self._watch.max_interval_ms
            wait_ms = min(self._due_ms - self._clock.monotonic_ms(), late_ms)
            if wait_ms > 0:
                await happens(self._hurry, wait_ms)
            elif late_ms == 0:
                await self._leave_late()
            else:
                await self._beat()

    async def leave(self, deadline: Deadline, *, leaves: bool | None, why: str = "") -> None:
        """Say good-bye; a static member says that it comes back, unless it is told not to."""
        member = self._member
        was_in = self.state is HeartbeatState.ACTIVE and bool(member.member_id)
        is_for_good = leaves if leaves is not None else member.instance_id is None
        epoch = LEAVING_FOR_NOW if member.instance_id is not None and not is_for_good else LEAVING
        member_id = member.member_id
        self._life += 1
        self.state = HeartbeatState.OUT
        self._epoch = JOINING
        self.target = None
        member.leave(why or NOT_YET_IN, keeps_id=True)
        if not was_in or (leaves is False and epoch == LEAVING):
            return

        def build(version: int) -> ConsumerGroupHeartbeatRequest:
            return ConsumerGroupHeartbeatRequest(
                group_id=member.group_id,
                member_id=member_id,
                member_epoch=epoch,
                instance_id=member.instance_id,
            )

        try:
            async with asyncio.timeout(min(deadline.remaining_ms(), self._request_ms) / 1_000):
                await self._coordinator.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, build)
        except (KafkaError, TimeoutError) as error:
            # The session runs out by itself.
            logger.debug("leaving group=%r failed: %s", member.group_id, error)

    def lose(self, why: str) -> None:
        """The group has gone on without this member."""
        logger.info("group=%r member=%r is out: %s", self._member.group_id, self._member.member_id, why)
        self._life += 1
        self.state = HeartbeatState.LOST
        self._epoch = JOINING
        self.target = None
        self._member.leave(keeps_id=True)
        self.on_change()

    async def _beat(self) -> None:
        life, epoch, said = self._life, self._epoch, self._report.now()
        self._hurry.clear()

        def build(version: int) -> ConsumerGroupHeartbeatRequest:
            return self._report.heartbeat(said, self._member.group_id, self._member_id(version), epoch, version)

        at_least = PATTERNS_SINCE if self._report.subscriptions.mode is Mode.SERVER_PATTERN else 0
        try:
            response = await self._coordinator.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, build, at_least=at_least)
        except KafkaError as error:
            if life == self._life:
                self._fail(_explained(error))
            return
        if life != self._life:
            return
        if response.error_code == ErrorCode.NONE:
            self._failures = 0
            self._report.answered(said)
            self._take(response)
        else:
            self._refused(response)

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        member = self._member
        if response.member_id:
            member.member_id = response.member_id
        if self._epoch == JOINING:
            logger.info("joined group=%r epoch=%d member=%r", member.group_id, response.member_epoch, member.member_id)
        self._epoch = response.member_epoch
        member.enter(response.member_epoch)
        self._due_ms = self._clock.monotonic_ms() + response.heartbeat_interval_ms
        if self._report.is_behind():
            self._due_ms = 0.0
        if response.assignment is not None:
            self.target = response.assignment
            self.on_change()

    def _refused(self, response: ConsumerGroupHeartbeatResponse) -> None:
        code = response.error_code
        if code in FENCED and self._epoch != JOINING:
            self.lose(response.error_message or ErrorCode(code).name)
            return
        error = self._coordinator.refusal(code, response.error_message)
        if self._epoch == JOINING and code in (*FENCED, ErrorCode.UNKNOWN_SERVER_ERROR):
            # A member that only joins loses nothing; a classic group cannot be taken over before it has a protocol.
            logger.warning("joining group=%r was refused and is tried again: %s", self._member.group_id, error)
            error.retriable = True
        self._fail(_explained(error))

    def _fail(self, error: KafkaError) -> None:
        self._failures += 1
        self._report.forget()
        self._due_ms = self._clock.monotonic_ms() + self._backoff.pause_ms(self._failures)
        logger.debug("heartbeat failed group=%r: %s", self._member.group_id, error)
        if error.retriable:
            return
        self.complaint = error
        if error.code not in TO_TELL:
            error.fatal = True
            self.lose(str(error))
        self.on_change()

    async def _leave_late(self) -> None:
        """The user's code takes too long: let others have the partitions."""
        why = self._watch.warning()
        logger.warning("group=%r: %s", self._member.group_id, why)
        told = f"the offsets are not committed: {why}. The next poll joins the group again"
        await self.leave(Deadline(self._clock, LEAVE_MS), leaves=None, why=told)
        if self.state is HeartbeatState.OUT:
            self.state = HeartbeatState.LOST
        self.on_change()

    def _member_id(self, version: int) -> str:
        """Made here; in older versions the coordinator makes it."""
        if not self._member.member_id and version >= OWN_MEMBER_ID_SINCE:
            self._member.member_id = _kafka_uuid(self._entropy.random_bytes(16))
        return self._member.member_id


def _kafka_uuid(data: bytes) -> str:
    """As Kafka writes ids: base 64 without padding, and no dash first, which tools would take for an option."""
    made = uuid.UUID(bytes=data, version=4).bytes
    text = urlsafe_b64encode(made).rstrip(b"=").decode()
    return "A" + text[1:] if text.startswith("-") else text


def _explained(error: KafkaError) -> KafkaError:
    """Say what to do where a broker is too old for the protocol."""
    if isinstance(error, UnsupportedVersion):
        return UnsupportedVersion(f"{error}; {OLD_BROKER}")
    return error
