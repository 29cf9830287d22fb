"""A simulated member of a classic group: it joins, syncs, sends heartbeats, and assigns partitions when it leads."""

import asyncio
import random

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from levada.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from levada.sim.actors.group_member import (
    BEAT_SECONDS,
    JOIN_SECONDS,
    REBALANCE_SECONDS,
    SESSION_SECONDS,
    TRY_AGAIN,
    MemberPlan,
    RawMember,
    retry_pause,
)
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.group_history import GroupHistory
from levada.sim.checkers.partition_log import Partition
from levada.world.world import World

RANGE = "range"
CONSUMER = "consumer"
DYNAMIC_VERSIONS = (3, 5, 7, 9)
"""Of JoinGroup: the first lets members in at once, others give them their id first (KIP-394)."""
LOADING_SECONDS = 1.0
"""No coordinator takes longer to load what a storm has written."""
TYPE_SINCE, NEWEST = 7, 9


class ClassicMember(RawMember):
    """Gives everything up before it joins again, as eager consumers do."""

    def __init__(
        self, world: World, host: str, port: int, history: GroupHistory, chance: random.Random, plan: MemberPlan
    ) -> None:
        super().__init__(world, host, port, history, chance, plan)
        # A static leader that comes back with an older version does not learn that it leads, and so no leader sees
        # topics grow; clients have had to live with that (KIP-814).
        self._version = chance.choice(DYNAMIC_VERSIONS) if plan.instance_id is None else NEWEST
        self.commit_version = chance.choice((7, 8, 9))
        self._durable_id = ""
        """The last id with which it has had an assignment, which is when an id is written down."""
        self._is_among_consumers = False
        """Whether its group is no classic one, where the coordinator assigns."""
        self._counts: dict[str, int] | None = None
        """What a leader's assignment is made of; None for a member that does not lead."""
        self._subscribed: list[str] = []
        """What the members want that it leads."""

    @property
    def is_steady(self) -> bool:
        return self.epoch > 0

    async def live(self) -> None:
        if not self.epoch:
            await self._join()
            return
        await self.obey_pause()
        await self.consume()
        stale = [one for one in self.delayed() if one[1] < self.epoch]
        if self._is_among_consumers:
            # There an older epoch is good enough for what a member has had since then (KIP-1251).
            stale = [one for one in stale if one[0] not in self.owned]
        await self.send_stale(stale)
        await self._heartbeat()
        if self.epoch and self._counts is not None and self.chance.random() < 0.3:
            await self._look_for_topics()
        await asyncio.sleep(BEAT_SECONDS * (0.5 + self.chance.random()))

    async def leave(self) -> None:
        """Say so once; a member that was not heard is missed when its session ends."""
        await self.commit(list(self.owned))
        self.drop_all()
        if self.member_id:
            identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.plan.instance_id)
            await self.ask(LeaveGroupRequest(group_id=self.history.group_id, members=[identity]), 5)

    async def _join(self) -> None:
        self.drop_all()
        await self.obey_pause()
        subscription = encode_subscription(ConsumerProtocolSubscription(topics=list(self.plan.topics)))
        request = JoinGroupRequest(
            group_id=self.history.group_id,
            session_timeout_ms=int(SESSION_SECONDS * 1_000),
            rebalance_timeout_ms=int(REBALANCE_SECONDS * 1_000),
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
            protocol_type=CONSUMER,
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=subscription)],
        )
        reply = await self.ask(request, self._version, JOIN_SECONDS)
        if reply is None:
            return
        if reply.error_code == ErrorCode.NONE:
            self.member_id = reply.member_id
            await self._sync(reply)
        elif reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = reply.member_id
        else:
            await self._go_on(reply.error_code, "JoinGroup")

    async def _sync(self, joined: JoinGroupResponse) -> None:
        assignments: list[SyncGroupRequestAssignment] = []
        self._counts = None
        self._is_among_consumers = not joined.leader
        if joined.leader == joined.member_id:
            counts = await self.learn_topics()
            if counts is None:
                return
            # A leader that need not assign does not know from what the group was assigned, and so looks again soon.
            self._counts = {}
            topics = {one.member_id: decode_subscription(one.metadata).topics for one in joined.members}
            self._subscribed = sorted(dict.fromkeys(name for names in topics.values() for name in names))
            if not joined.skip_assignment:
                self._counts = self._wanted(counts)
                assignments = self._assign(topics, counts)
        request = SyncGroupRequest(
            group_id=self.history.group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=self.plan.instance_id,
            protocol_type=CONSUMER if self._version >= TYPE_SINCE else None,
            protocol_name=RANGE if self._version >= TYPE_SINCE else None,
            assignments=assignments,
        )
        sent_s = self.now_s
        reply = await self.ask(request, 5 if self._version >= TYPE_SINCE else 3, JOIN_SECONDS)
        if reply is None:
            return
        if reply.error_code:
            await self._go_on(reply.error_code, "SyncGroup")
            return
        if not reply.assignment:
            raise CheckFailed(f"{self.name} got no assignment in generation {joined.generation_id}")
        assigned = decode_assignment(reply.assignment)
        if assigned.user_data is not None:
            self.history.generations.learn(joined.generation_id, bytes(assigned.user_data).decode())
        self.epoch = joined.generation_id
        self._durable_id = self.member_id
        mine = [(one.topic, index) for one in assigned.assigned_partitions for index in one.partitions]
        self.take(mine, sent_s)
        self.hear(sent_s, "a sync")

    async def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.history.group_id,
            generation_id=self.epoch,
            member_id=self.member_id,
            group_instance_id=self.plan.instance_id,
        )
        sent_s = self.now_s
        reply = await self.ask(request, 4)
        if reply is None:
            return
        # A coordinator that is loading finds nothing wrong with any heartbeat, as Apache's does not.
        may_be_blind = self.now_s < self.history.broker_since_s + LOADING_SECONDS
        if reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS or (not reply.error_code and not may_be_blind):
            self.hear(sent_s, "a heartbeat")
        if reply.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            await self.commit(list(self.owned))
        if reply.error_code not in (ErrorCode.NONE, *TRY_AGAIN):
            self.check_exclusion(reply.error_code, sent_s)
            await self._go_on(reply.error_code, "Heartbeat")

    async def _go_on(self, code: int, what: str) -> None:
        """Join again, as the answer says: with this id, with another, or never."""
        self.epoch = 0
        self.drop_all()
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        elif code == ErrorCode.FENCED_INSTANCE_ID and self.has_rival:
            self.is_over = True
        elif code == ErrorCode.FENCED_INSTANCE_ID and self.member_id != self._durable_id:
            # As in Kafka, a new coordinator may know the id before this one, and no client gets over that by itself.
            self.member_id = ""
        elif code in TRY_AGAIN:
            await retry_pause()
        elif code not in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            raise CheckFailed(f"{what} of {self.name} was answered with {ErrorCode(code).name}")

    # Leading

    async def _look_for_topics(self) -> None:
        """A leader that sees other partitions than it has assigned joins again, to assign them."""
        counts = await self.learn_topics()
        if counts is not None and self._wanted(counts) != self._counts:
            await self.commit(list(self.owned))
            self.epoch = 0
            self.drop_all()

    def _wanted(self, counts: dict[str, int]) -> dict[str, int]:
        return {name: count for name, count in counts.items() if name in self._subscribed}

    def _assign(self, topics: dict[str, list[str]], counts: dict[str, int]) -> list[SyncGroupRequestAssignment]:
        # Only an assignment without data of a client's own can be taken over by the coordinator.
        mark = None if self.history.is_mixed else f"{self.name} {self.now_s}".encode()
        assigned = assign_ranges(topics, counts)
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=_encode(assigned[member_id], mark))
            for member_id in topics
        ]


def assign_ranges(topics: dict[str, list[str]], counts: dict[str, int]) -> dict[str, list[Partition]]:
    """Give each member its share of every topic that it wants."""
    assigned: dict[str, list[Partition]] = {member_id: [] for member_id in topics}
    for name in sorted(counts):
        takers = sorted(member_id for member_id, wanted in topics.items() if name in wanted)
        for index in range(counts[name] if takers else 0):
            assigned[takers[index * len(takers) // counts[name]]].append((name, index))
    return assigned


def _encode(partitions: list[Partition], mark: bytes | None) -> bytes:
    names = dict.fromkeys(topic for topic, _ in partitions)
    topics = [
        AssignedTopic(topic=name, partitions=[index for topic, index in partitions if topic == name]) for name in names
    ]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=topics, user_data=mark))
