"""A simulated member of a consumer group (KIP-848): it takes up what it is assigned and gives up what it is told to."""

import asyncio
import random

from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from levada.sim.actors.group_member import (
    BEAT_SECONDS,
    REBALANCE_SECONDS,
    TRY_AGAIN,
    MemberPlan,
    RawMember,
    retry_pause,
)
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.group_history import GroupHistory
from levada.sim.checkers.partition_log import Partition
from levada.world.world import World

JOINING, LEAVING, LEAVING_FOR_NOW = 0, -1, -2
VERSION = 1


class ConsumerMember(RawMember):
    """Some give up their partitions late, and some too late."""

    fetch_version = 9

    def __init__(
        self, world: World, host: str, port: int, history: GroupHistory, chance: random.Random, plan: MemberPlan
    ) -> None:
        super().__init__(world, host, port, history, chance, plan)
        self.member_id = plan.name
        self.commit_version = chance.choice((9, 10))
        self.returns = False
        """Whether a static member leaves for a while only."""
        self._target: list[Partition] | None = None
        self._must_say_all = False
        self._must_report = False
        self._revoke_at_s: float | None = None
        self._told_at_s: float | None = None
        """Since when it may be that it must give something up, and has not said that it has."""
        self._released: dict[tuple[Partition, int], None] = {}
        """Partitions and epochs of delayed commits that it has given up since, as the coordinator knows."""
        self._out_at_s = 0.0
        """When it was told last that it is no member."""

    @property
    def is_steady(self) -> bool:
        return self.epoch > 0 and self._revoke_at_s is None and not self._must_report and not self._must_say_all

    async def live(self) -> None:
        await self.obey_pause()
        if self.epoch > 0:
            await self._give_up_what_is_due()
            await self.consume()
            await self.send_stale([one for one in self._released if one[1] < self.epoch])
        await self._heartbeat()
        if not self._must_report:
            await asyncio.sleep(BEAT_SECONDS * (0.5 + self.chance.random()))

    async def leave(self) -> None:
        await self.commit(list(self.owned))
        was_in = self.epoch > 0
        self._drop_out()
        if was_in:
            epoch = LEAVING_FOR_NOW if self.returns and self.plan.instance_id is not None else LEAVING
            await self.ask(self._request(epoch), VERSION)

    def check_exclusion(self, code: int, asked_s: float) -> None:
        if self._told_at_s is None or self.now_s < self._told_at_s + REBALANCE_SECONDS:
            super().check_exclusion(code, asked_s)

    async def _give_up_what_is_due(self) -> None:
        if self._revoke_at_s is None or self.now_s < self._revoke_at_s:
            return
        assert self._target is not None
        unwanted = [partition for partition in self.owned if partition not in self._target]
        await self.commit(unwanted)
        self.give_up(unwanted)
        self._revoke_at_s, self._must_report = None, True

    async def _heartbeat(self) -> None:
        request, owned = self._next_request(), dict(self.owned)
        sent_s = self.now_s
        reply = await self.ask(request, VERSION)
        if reply is None:
            # What it changed the answer would have said; a member that says everything is told everything.
            self._must_say_all = True
            self.doubt()
            self._be_told(sent_s)
            return
        if reply.error_code:
            await self._go_on(reply, sent_s)
            return
        if request.member_epoch != JOINING:
            self.hear(sent_s, "a heartbeat")
        elif self.plan.instance_id is not None or self.history.broker_since_s > self._out_at_s:
            # It may have what a static member left for a while, whose partitions count from epoch 0, as in Kafka; or
            # a crash took the record of its end, and it has back what it had. Its old commits may count again.
            self.forget_delayed()
        if reply.member_epoch < request.member_epoch:
            raise CheckFailed(f"{self.name} went back from epoch {request.member_epoch} to {reply.member_epoch}")
        self.epoch = reply.member_epoch
        if request.topic_partitions is not None:
            self._released |= {(one, epoch): None for one, epoch in self.delayed() if one not in owned}
            self._must_report = self._must_say_all = False
            if self._revoke_at_s is None:
                self._told_at_s = None
        if reply.assignment is not None:
            await self._follow(reply.assignment, sent_s)

    def _next_request(self) -> ConsumerGroupHeartbeatRequest:
        """Only what has changed, unless the coordinator may not know the rest."""
        request = self._request(self.epoch)
        if self.epoch == JOINING or self._must_say_all:
            request.rebalance_timeout_ms = int(REBALANCE_SECONDS * 1_000)
            request.subscribed_topic_names = [] if self.plan.regex else list(self.plan.topics)
            request.subscribed_topic_regex = self.plan.regex
        if self.epoch == JOINING or self._must_say_all or self._must_report:
            ids = {name: topic_id for topic_id, name in self._names.items()}
            request.topic_partitions = [
                RequestTopicPartitions(topic_id=ids[topic], partitions=[index]) for topic, index in self.owned
            ]
        return request

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self.history.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            instance_id=self.plan.instance_id,
        )

    async def _follow(self, assignment: Assignment, sent_s: float) -> None:
        """Take what is new at once; the coordinator waits for what is to be given up."""
        wanted = [(one.topic_id, index) for one in assignment.topic_partitions for index in one.partitions]
        if any(topic_id not in self._names for topic_id, _ in wanted):
            await self.learn_topics()
        if any(topic_id not in self._names for topic_id, _ in wanted):
            self._must_say_all = True
            return
        self._target = [(self._names[topic_id], index) for topic_id, index in wanted]
        new = [partition for partition in self._target if partition not in self.owned]
        self.take(new, sent_s)
        if new:
            self._must_report = True
            # What it commits from now on with this epoch is no longer late.
            self._released = {one: None for one in self._released if one[1] < self.epoch}
        if any(partition not in self._target for partition in self.owned):
            self._be_told(sent_s)
            self._revoke_at_s = self.now_s + self._revocation_seconds()
        else:
            self._revoke_at_s = None

    def _be_told(self, sent_s: float) -> None:
        if self._told_at_s is None:
            self._told_at_s = sent_s

    def _revocation_seconds(self) -> float:
        draw = self.chance.random()
        if draw < 0.6:
            return 0.0
        return self.chance.random() * (REBALANCE_SECONDS / 2 if draw < 0.95 else REBALANCE_SECONDS * 2)

    async def _go_on(self, reply: ConsumerGroupHeartbeatResponse, sent_s: float) -> None:
        code = reply.error_code
        if code in TRY_AGAIN:
            await retry_pause()
            return
        self.check_exclusion(code, sent_s)
        if code == ErrorCode.UNKNOWN_MEMBER_ID:
            self._released |= dict.fromkeys(self.delayed())
            self._out_at_s = self.now_s
            self._drop_out()
        elif code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND):
            # It may have back what it had, itself or from the member after it, and its old commits may count again.
            self.forget_delayed()
            self._drop_out()
        elif code == ErrorCode.UNRELEASED_INSTANCE_ID and self.epoch == JOINING:
            await retry_pause()
        elif code == ErrorCode.UNKNOWN_SERVER_ERROR and self.epoch == JOINING and self.history.is_mixed:
            # As in Kafka, a classic group cannot be taken over before its members have agreed on a protocol.
            await retry_pause()
        elif code == ErrorCode.FENCED_INSTANCE_ID and self.has_rival:
            self.is_over = True
        else:
            text = f"{ErrorCode(code).name} ({reply.error_message})"
            raise CheckFailed(f"a heartbeat of {self.name} with epoch {self.epoch} was answered with {text}")

    def _drop_out(self) -> None:
        self.drop_all()
        self.epoch = JOINING
        self._target = self._revoke_at_s = self._told_at_s = None
        self._must_say_all = self._must_report = False
