"""JoinGroup and SyncGroup: how a member of a classic group gets into the next generation."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from levada.client.assignors import ASSIGNORS, Assignor, RebalanceProtocol
from levada.client.assignors.spec import Assignment, Subscription
from levada.client.assignors.wire import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from levada.client.cluster import Cluster
from levada.client.consumer.coordinator import GroupCoordinatorLookup
from levada.client.consumer.member_state import NO_GENERATION, MemberState, Phase
from levada.client.consumer.subscription import Subscriptions
from levada.client.consumer.wanted_topics import WantedTopics
from levada.client.errors import ConfigurationError, IllegalState, KafkaError
from levada.client.options import Options
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.errors import MalformedMessage
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

logger = logging.getLogger("levada.client")

CONSUMER = "consumer"
LAPSE_MS = 5_000
"""How much longer than the rebalance timeout the answer to a join may take, as in Java's client."""
FIRST_STATIC = 5
"""The version of JoinGroup that knows static members."""
FIRST_STATIC_SYNC = 3
MAX_REASON = 255
WARN_EVERY = 10
"""Failures in a row."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A place in a generation."""

    generation: int
    assignor: Assignor
    partitions: Sequence[TopicPartition]
    topics: frozenset[str]
    """What it joined with."""
    led: Mapping[str, int] | None
    """For the leader: the partition counts that the assignment was made of."""


class Lost(Exception):
    """The generation is gone, and with it the partitions: they have to be given up before the next attempt."""


class _Rejoin(Exception):
    """Join once more at once: the group has moved on, or has given this member its id."""


class ClassicJoin:
    """Asks for a place until there is one."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: GroupCoordinatorLookup,
        member: MemberState,
        subscriptions: Subscriptions,
        topics: WantedTopics,
    ) -> None:
        options = cluster.options
        self.assignors = configured_assignors(options)
        self.protocol = common_protocol(list(self.assignors.values()))
        self.owned_since = NO_GENERATION
        """The generation that gave this member what it owns, which the leader goes by where members disagree."""
        self._cluster = cluster
        self._coordinator = coordinator
        self._member = member
        self._subscriptions = subscriptions
        self._topics = topics
        self._session_ms: int = options["session.timeout.ms"]
        self._rebalance_ms: int = options["max.poll.interval.ms"]
        self._rack_id: str | None = options["client.rack"] or None
        self._limit_ms = max(options["request.timeout.ms"], self._rebalance_ms + LAPSE_MS)

    async def join(self, reason: str) -> Joined:
        """A place in the group; Lost when the partitions that are still held are lost; other errors do not pass."""
        failures = 0
        while True:
            try:
                return await self._join_once(reason)
            except _Rejoin as again:
                reason = str(again) or reason
                # The first time at once, as the protocol means it; a member that gets nowhere slows down.
                pause_ms = self._cluster.backoff.pause_ms(failures)
            except KafkaError as error:
                if not error.retriable:
                    raise
                level = logging.WARNING if failures % WARN_EVERY == WARN_EVERY - 1 else logging.DEBUG
                logger.log(level, "joining group=%r failed, and is tried again: %s", self._member.group_id, error)
                pause_ms = self._cluster.backoff.pause_ms(failures + 1)
            failures += 1
            await asyncio.sleep(pause_ms / 1_000)

    async def _join_once(self, reason: str) -> Joined:
        topics = self._subscriptions.topics
        protocols = [
            JoinGroupRequestProtocol(name=name, metadata=encode_subscription(self._subscription(assignor, topics)))
            for name, assignor in self.assignors.items()
        ]

        def build(version: int) -> JoinGroupRequest:
            # Not before there is a coordinator to ask: heartbeats and commits end here.
            self._member.phase = Phase.REBALANCING
            return JoinGroupRequest(
                group_id=self._member.group_id,
                session_timeout_ms=self._session_ms,
                rebalance_timeout_ms=self._rebalance_ms,
                member_id=self._member.member_id,
                group_instance_id=self._member.instance_id,
                protocol_type=CONSUMER,
                protocols=protocols,
                reason=reason[:MAX_REASON],
            )

        at_least = FIRST_STATIC if self._member.instance_id is not None else 0
        response = await self._coordinator.ask(ApiKey.JOIN_GROUP, build, timeout_ms=self._limit_ms, at_least=at_least)
        self._check_join(response)
        self._member.member_id = response.member_id
        return await self._sync(response, topics)

    def _subscription(self, assignor: Assignor, topics: frozenset[str]) -> Subscription:
        return Subscription(
            topics=sorted(topics),
            user_data=assignor.user_data(topics),
            owned_partitions=sorted(self._subscriptions.assigned()),
            generation_id=self.owned_since,
            rack_id=self._rack_id,
        )

    def _check_join(self, response: JoinGroupResponse) -> None:
        code = response.error_code
        if code == ErrorCode.NONE:
            if response.protocol_type not in (None, CONSUMER):
                raise IllegalState(
                    f"group {self._member.group_id!r} is one of {response.protocol_type!r} members, not of consumers"
                )
        elif code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member.member_id = response.member_id
            raise _Rejoin
        else:
            self._refuse(code, "JoinGroup")

    async def _sync(self, joined: JoinGroupResponse, topics: frozenset[str]) -> Joined:
        assignor = self.assignors.get(joined.protocol_name or "")
        if assignor is None:
            raise IllegalState(f"group {self._member.group_id!r} chose {joined.protocol_name!r}, which is not offered")
        led: dict[str, int] | None = None
        assignments: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id:
            led, assignments = await self._lead(joined, assignor)
        else:
            self._topics.lead_no_more()

        def build(version: int) -> SyncGroupRequest:
            return SyncGroupRequest(
                group_id=self._member.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                group_instance_id=self._member.instance_id,
                protocol_type=CONSUMER,
                protocol_name=joined.protocol_name,
                assignments=assignments,
            )

        at_least = FIRST_STATIC_SYNC if self._member.instance_id is not None else 0
        response = await self._coordinator.ask(ApiKey.SYNC_GROUP, build, timeout_ms=self._limit_ms, at_least=at_least)
        if response.error_code != ErrorCode.NONE:
            self._refuse(response.error_code, "SyncGroup")
        if response.protocol_name not in (None, joined.protocol_name):
            raise IllegalState(
                f"group {self._member.group_id!r} chose {joined.protocol_name!r} and assigned by "
                f"{response.protocol_name!r}"
            )
        partitions = self._assigned(response)
        self._member.enter(joined.generation_id)
        return Joined(joined.generation_id, assignor, partitions, topics, led)

    def _assigned(self, response: SyncGroupResponse) -> list[TopicPartition]:
        try:
            partitions, _ = decode_assignment(response.assignment)
        except MalformedMessage as error:
            raise IllegalState(
                f"the leader of group {self._member.group_id!r} sent an assignment that cannot be read: {error}"
            ) from error
        return [TopicPartition(topic, index) for topic, index in partitions]

    def _refuse(self, code: int, where: str) -> None:
        member = self._member
        logger.debug("%s refused group=%r member=%r code=%d", where, member.group_id, member.member_id, code)
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise _Rejoin("rebalance failed due to RebalanceInProgress")
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            member.leave(keeps_id=code == ErrorCode.ILLEGAL_GENERATION)
            self.owned_since = NO_GENERATION
            if self._subscriptions.assigned():
                raise Lost
            raise _Rejoin(f"need to re-join after {ErrorCode(code).name} from {where}")
        raise self._coordinator.refusal(code)

    async def _lead(
        self, joined: JoinGroupResponse, assignor: Assignor
    ) -> tuple[dict[str, int], list[SyncGroupRequestAssignment]]:
        """Assign everybody's partitions, and watch the topics of all of them from now on."""
        members = {each.member_id: self._told(each.metadata, each.group_instance_id) for each in joined.members}
        topics = sorted(dict.fromkeys(topic for member in members.values() for topic in member.topics))
        await self._topics.learn(topics)
        counts = self._topics.counts(topics)
        if joined.skip_assignment:
            # A static leader that came back leaves everything as it was (KIP-814).
            return counts, []
        assignment = assignor.assign(counts, members, self._topics.racks(topics))
        if self.protocol is RebalanceProtocol.COOPERATIVE:
            check_cooperative(assignor, members, assignment)
        logger.debug("assigned group=%r generation=%d: %s", self._member.group_id, joined.generation_id, assignment)
        return counts, [
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(assignment.get(member_id, ())))
            for member_id in members
        ]

    def _told(self, metadata: bytes, instance_id: str | None) -> Subscription:
        try:
            return decode_subscription(metadata, instance_id)
        except MalformedMessage as error:
            raise IllegalState(f"a member of group {self._member.group_id!r} is no consumer: {error}") from error


def configured_assignors(options: Options) -> dict[str, Assignor]:
    """By their names on the wire, the preferred first; each consumer has its own."""
    assignors: dict[str, Assignor] = {}
    for given in options["partition.assignment.strategy"]:
        assignor: Assignor = (
            ASSIGNORS[given]() if isinstance(given, str) else given() if isinstance(given, type) else given
        )
        if assignor.name in assignors:
            raise ConfigurationError(f"partition.assignment.strategy has two assignors named {assignor.name!r}")
        assignors[assignor.name] = assignor
    return assignors


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """The highest that all of them support: the group may choose any of them (KIP-429)."""
    common = [each for each in RebalanceProtocol if all(each in one.rebalance_protocols for one in assignors)]
    if not common:
        names = ", ".join(assignor.name for assignor in assignors)
        raise ConfigurationError(f"partition.assignment.strategy: {names} have no rebalance protocol in common")
    return max(common)


def check_cooperative(assignor: Assignor, members: Mapping[str, Subscription], assignment: Assignment) -> None:
    """What one member has to give up must not be given to another before it has (KIP-429)."""
    owners = {partition: member_id for member_id, member in members.items() for partition in member.owned_partitions}
    moved = sorted(
        partition
        for member_id, partitions in assignment.items()
        for partition in partitions
        if owners.get(partition, member_id) != member_id
    )
    if moved and assignor.name not in ASSIGNORS:
        raise IllegalState(
            f"assignor {assignor.name!r} says it is cooperative, but gives {moved} to new owners "
            "before the old ones have given them up"
        )
