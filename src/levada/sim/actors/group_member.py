"""What all simulated members of groups do: they read from where the group left off, and commit how far they came."""

import asyncio
import random
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from levada.model.error_codes import ErrorCode
from levada.protocol.declare import NO_UUID, Request
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.offset_commit import (
    TOPIC_IDS_SINCE,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from levada.sim.actors.actor import Actor
from levada.sim.checkers import CheckFailed
from levada.sim.checkers.group_history import GroupHistory, SentCommit
from levada.sim.checkers.partition_log import Partition
from levada.sim.requests.connections import RETRY_SECONDS, Caller
from levada.world.world import World

T = TypeVar("T")

CALL_SECONDS = 1.0
SESSION_SECONDS = 3.0
REBALANCE_SECONDS = 4.0
"""Not shorter than a session: a member that sends heartbeats has time to join again."""
JOIN_SECONDS = 10.0
"""Longer than a join or a sync may take by what the coordinator has been told."""
BEAT_SECONDS = 0.4

TRY_AGAIN = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
OUT = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)
"""Told to members that are none, or none any more."""
REFUSALS = (
    *OUT,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)
"""A member that is told this about a commit knows that it did not happen."""


@dataclass(frozen=True, slots=True)
class MemberPlan:
    """What a member is told before it begins."""

    name: str
    """Of this process; the next one on its host has another."""
    topics: tuple[str, ...]
    instance_id: str | None = None
    """Of a static member."""
    regex: str | None = None
    """What to subscribe to instead of the topics, which are those that it matches."""


@dataclass(frozen=True, slots=True)
class _Delayed:
    """A commit that is still on its way when its sender has long lost the partition."""

    partition: Partition
    offset: int
    member_id: str
    epoch: int


class RawMember(Actor):
    """One process, which says what it has in `owned`."""

    commit_version = 9
    fetch_version = 8

    def __init__(
        self, world: World, host: str, port: int, history: GroupHistory, chance: random.Random, plan: MemberPlan
    ) -> None:
        super().__init__(plan.name, chance)
        self.plan = plan
        self.history = history
        self.member_id = ""
        self.epoch = 0
        """Or generation; 0 while it is in none."""
        self.owned: dict[Partition, int | None] = {}
        """The next offset of each partition it has; None until it knows where the group left off."""
        self.has_rival = False
        """Whether another process has been started in its name."""
        self._caller = Caller(world, host, port)
        self._names: dict[bytes, str] = {}
        self._delayed: list[_Delayed] = []
        self._commits = 0
        self._heard_s: float | None = None

    @property
    @abstractmethod
    def is_steady(self) -> bool:
        """Whether it is in the group and there is nothing it has yet to do about it."""

    @property
    def topics(self) -> tuple[str, ...]:
        return self.plan.topics

    async def run(self) -> None:
        """Leave when it must stop; a member whose place another took has nothing to leave."""
        while not self.is_over and not self.must_stop:
            await self.live()
        if not self.is_over:
            await self.leave()
        self.is_over = True
        self.drop_all()
        self._caller.close()

    def die(self) -> None:
        super().die()
        self.drop_all()

    @abstractmethod
    async def live(self) -> None:
        """Do the next thing a member does."""

    @abstractmethod
    async def leave(self) -> None:
        """Say that it goes."""

    # Requests

    async def ask(self, request: Request[T], version: int, seconds: float = CALL_SECONDS) -> T | None:
        """The answer, or None; in calm times there is one."""
        asked_s = self.now_s
        reply = await self._caller.ask(request, version, seconds)
        if reply is None and asked_s > self.history.calm_since_s and self.now_s - asked_s >= seconds:
            raise CheckFailed(f"{self.name} waited {seconds} s for {type(request).__name__}")
        return reply

    async def learn_topics(self) -> dict[str, int] | None:
        """How many partitions each topic has, if there is an answer."""
        reply = await self.ask(MetadataRequest(topics=None), 12)
        if reply is None:
            return None
        self._names = {topic.topic_id: topic.name or "" for topic in reply.topics}
        return {topic.name or "": len(topic.partitions) for topic in reply.topics}

    async def obey_pause(self) -> None:
        """Stand still, as a process does that is stopped or collects garbage."""
        if self.pause_seconds:
            seconds, self.pause_seconds = self.pause_seconds, 0.0
            await asyncio.sleep(seconds)

    # Being in and out

    def hear(self, sent_s: float, what: str) -> None:
        """What was sent then was accepted as a member's."""
        self.history.ownership.confirm(self.name, sent_s, what)
        self._heard_s = sent_s

    def doubt(self) -> None:
        """From now on it may be out without a fault of the coordinator's."""
        self._heard_s = None

    def check_exclusion(self, code: int, asked_s: float) -> None:
        """No member is put out of a group that was heard of within a session."""
        heard_s = self._heard_s
        if code not in OUT or heard_s is None or self.has_rival:
            return
        if self.now_s < heard_s + SESSION_SECONDS:
            told = f"{ErrorCode(code).name} at {asked_s:.3f} s"
            raise CheckFailed(f"{self.name} was told {told} although it was heard of at {heard_s:.3f} s")

    def take(self, partitions: Iterable[Partition], asked_s: float) -> None:
        for partition in partitions:
            self.history.ownership.take(self.name, partition, asked_s, self.now_s)
            self.owned[partition] = None

    def give_up(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            del self.owned[partition]
            self.history.ownership.give_up(self.name, partition)

    def drop_all(self) -> None:
        """It has nothing any more, and knows it."""
        self.owned.clear()
        self.history.ownership.forget(self.name)
        self.doubt()

    # Offsets

    async def consume(self) -> None:
        """Go on from where the group left off; commit now and then, sometimes much too late."""
        await self._find_positions()
        for partition in [one for one, offset in self.owned.items() if offset is not None]:
            if self.chance.random() < 0.05:
                offset = self._advance(partition)
                self._delayed.append(_Delayed(partition, offset, self.member_id, self.epoch))
        ready = [one for one, offset in self.owned.items() if offset is not None and self.chance.random() < 0.5]
        if ready:
            await self.commit(ready)

    async def commit(self, partitions: Iterable[Partition]) -> None:
        """SentCommit progress of partitions whose position is known."""
        offsets = {one: self._advance(one) for one in partitions if self.owned.get(one) is not None}
        if not offsets:
            return
        sent_s = self.now_s
        for code in await self._send_commit(offsets, self.member_id, self.epoch):
            if code == ErrorCode.NONE:
                self.history.ownership.confirm(self.name, sent_s, "a commit")
            self.check_exclusion(code, sent_s)

    async def send_stale(self, stale: Iterable[tuple[Partition, int]]) -> None:
        """Commits with these epochs arrive only now; they come from a member that does not have these partitions."""
        wanted = dict.fromkeys(stale)
        due = [one for one in self._delayed if (one.partition, one.epoch) in wanted]
        self._delayed = [one for one in self._delayed if one not in due]
        for one in due:
            codes = await self._send_commit({one.partition: one.offset}, one.member_id, one.epoch)
            if ErrorCode.NONE in codes:
                text = f"a commit of {one.member_id} with epoch {one.epoch} for {one.partition}"
                raise CheckFailed(f"{text} was accepted when it was with {self.member_id} at {self.epoch}")
            self.history.stale_commits += len(codes)

    def delayed(self) -> list[tuple[Partition, int]]:
        """Partitions and epochs of commits that are on their way."""
        return [(one.partition, one.epoch) for one in self._delayed]

    def forget_delayed(self) -> None:
        """It cannot be said whether they would be accepted."""
        self._delayed.clear()

    def _advance(self, partition: Partition) -> int:
        offset = self.owned[partition]
        assert offset is not None
        self.owned[partition] = offset + self.chance.randint(1, 10)
        return offset + 1

    async def _send_commit(self, offsets: dict[Partition, int], member_id: str, epoch: int) -> list[int]:
        """The codes of those that were answered, and the history kept."""
        version, names = self.commit_version, self._names
        if version >= TOPIC_IDS_SINCE and any(topic not in names.values() for topic, _ in offsets):
            version = TOPIC_IDS_SINCE - 1
        ids = {name: topic_id for topic_id, name in names.items()}
        topics, commits = [], dict[Partition, SentCommit]()
        for partition, offset in offsets.items():
            self._commits += 1
            label = f"{self.name} {self._commits}"
            commits[partition] = self.history.offsets.send(partition, label, offset, self.now_s)
            wanted = OffsetCommitRequestPartition(
                partition_index=partition[1], committed_offset=offset, committed_metadata=label
            )
            topic_id = ids.get(partition[0], NO_UUID)
            topics.append(OffsetCommitRequestTopic(name=partition[0], topic_id=topic_id, partitions=[wanted]))
        request = OffsetCommitRequest(
            group_id=self.history.group_id,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            group_instance_id=self.plan.instance_id,
            topics=topics,
        )
        reply = await self.ask(request, version)
        if reply is None:
            return []
        codes = [topic.partitions[0].error_code for topic in reply.topics]
        for code, commit in zip(codes, commits.values()):
            self._settle(commit, code)
        return codes

    def _settle(self, commit: SentCommit, code: int) -> None:
        if code == ErrorCode.NONE:
            self.history.offsets.acknowledge(commit, self.now_s)
        elif code in REFUSALS:
            self.history.offsets.refuse(commit, self.now_s)
        elif code not in TRY_AGAIN:
            raise CheckFailed(f"{commit.label} was answered with {ErrorCode(code).name}")

    async def _find_positions(self) -> None:
        wanted = [partition for partition, offset in self.owned.items() if offset is None]
        if not wanted:
            return
        asked_s = self.now_s
        group = OffsetFetchRequestGroup(
            group_id=self.history.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[index]) for topic, index in wanted],
        )
        reply = await self.ask(OffsetFetchRequest(groups=[group]), self.fetch_version)
        if reply is None:
            return
        [answer] = reply.groups
        if answer.error_code:
            self.check_exclusion(answer.error_code, asked_s)
            if answer.error_code not in (*TRY_AGAIN, *REFUSALS):
                raise CheckFailed(f"{self.name} cannot fetch offsets: {ErrorCode(answer.error_code).name}")
            return
        for partition, topic in zip(wanted, answer.topics):
            [found] = topic.partitions
            label, offset = found.metadata or "", found.committed_offset
            self.history.offsets.check_read(partition, label, offset, asked_s, self.now_s)
            if partition in self.owned:
                self.owned[partition] = max(offset, 0)


async def retry_pause() -> None:
    await asyncio.sleep(RETRY_SECONDS)
