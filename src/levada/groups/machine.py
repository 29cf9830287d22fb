"""All that one partition of `__consumer_offsets` keeps: the groups that hash to it, and their offsets."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TypeAlias, TypeVar

from levada.coordination.decision import Decision, EndOfTransaction, Record
from levada.coordination.shard import Outbox, Token
from levada.coordination.timers import Timers
from levada.groups import group_records
from levada.groups.classic import ClassicGroups, JoiningClient
from levada.groups.consumer import Client, Committer, ConsumerGroups, ConsumerTimer, check_commit, check_fetch
from levada.groups.consumer.group_records import group_tombstones
from levada.groups.counts import GroupCounts
from levada.groups.describing import described, listed, unknown
from levada.groups.group import CONSUMER, ClassicGroupState, Group
from levada.groups.offsets import CommittedOffset, Offsets, TopicOffsets, Topics, is_id_of
from levada.groups.rebalance import ClassicTimer
from levada.groups.records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from levada.groups.settings import GroupSettings
from levada.groups.upkeep import Chores, GroupCleanup, GroupRules, TopicDeletion
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.protocol.messages import consumer_group_describe
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from levada.protocol.messages.describe_groups import DescribedGroup
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.list_groups import ListedGroup
from levada.protocol.messages.offset_commit import OffsetCommitRequest
from levada.protocol.messages.offset_fetch import OffsetFetchRequestGroup
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from levada.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

Reply = TypeVar("Reply")

CHORE_INTERVAL_MS = 1


class GroupUpkeep(Enum):
    """Timers of what is looked at now and then."""

    CLEANUP = "offsets and groups that are not needed any more"
    CHORES = "what is to be written bit by bit"


GroupTimer: TypeAlias = ClassicTimer | ConsumerTimer | GroupUpkeep


@dataclass(frozen=True, slots=True)
class GroupCluster:
    """What groups must know of the cluster they are in."""

    image: Callable[[], Image]
    group_config: Callable[[str], Mapping[str, str]]
    """What was set for a group."""


@dataclass(frozen=True, slots=True)
class Committed:
    """What a group has committed, and which partitions of it a transaction under way may still change."""

    offsets: TopicOffsets
    unstable: frozenset[tuple[str, int]]


class GroupMachine:
    """Every operation answers its token, now or later, through the outbox."""

    def __init__(
        self, settings: GroupSettings, cluster: GroupCluster, random_bytes: Callable[[int], bytes], counts: GroupCounts
    ) -> None:
        self._settings = settings
        self._counts = counts
        self._cluster = cluster
        self.outbox = Outbox()
        self._timers: Timers[GroupTimer] = Timers()
        self.classic = ClassicGroups(settings, random_bytes, self._timers, self.outbox, counts)
        self.consumer = ConsumerGroups(
            settings.consumer, self._timers, random_bytes, cluster.image, cluster.group_config, self.classic.find
        )
        self.offsets = Offsets()
        self._chores = Chores()

    def apply(self, record: Record) -> None:
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.apply(key, value, record.producer_id)
            if value is not None and not self._has_group(key.group):
                self.classic.make_simple(key.group)
        elif isinstance(key, EndOfTransaction):
            self.offsets.end_transaction(key)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self.classic.apply(key, value)
        else:
            self.consumer.apply(record)

    def on_loaded(self, now_ms: int) -> None:
        self.classic.on_loaded(now_ms)
        self.consumer.on_loaded(now_ms)
        self._timers.set(GroupUpkeep.CLEANUP, now_ms + self._settings.offsets_check_interval_ms)

    def resign(self) -> None:
        self.classic.resign()

    def deadline_ms(self) -> int | None:
        return self._timers.deadline_ms()

    def expire(self, now_ms: int) -> bool:
        timer = self._timers.pop_due(now_ms)
        if timer is None:
            return False
        if isinstance(timer, ClassicTimer):
            self.classic.expire(timer, now_ms)
        elif isinstance(timer, ConsumerTimer):
            self._write_consumer(self.consumer.expire(timer, now_ms))
        elif timer is GroupUpkeep.CHORES:
            self._do_chores(now_ms)
        else:
            self._add_cleanups([group.group_id for group in self.classic.all()], self._rules_of, now_ms)
            self._add_cleanups(list(self.consumer.groups), self._rules_of_consumer, now_ms)
            self._do_chores(now_ms)
            self._timers.set(timer, now_ms + self._settings.offsets_check_interval_ms)
        return True

    def join(
        self, token: Token[JoinGroupResponse], request: JoinGroupRequest, joiner: JoiningClient, now_ms: int
    ) -> None:
        group = self.consumer.groups.get(request.group_id)
        if group is not None and group.members:
            client = Client(joiner.client_id, joiner.client_host, joiner.version)
            self._decided(token, self.consumer.join(request, client, now_ms))
            return
        if group is not None:
            # It has no members left: a classic group takes its place.
            self.outbox.write(group_tombstones(group))
            self.outbox.undo.append(lambda _: self.classic.forget(request.group_id))
        self.classic.join(token, request, joiner, now_ms)

    def sync(self, token: Token[SyncGroupResponse], request: SyncGroupRequest, now_ms: int) -> None:
        if request.group_id in self.consumer.groups:
            self.outbox.answer(token, self.consumer.sync(request, now_ms))
        else:
            self.classic.sync(token, request, now_ms)

    def heartbeat(self, token: Token[ErrorCode], request: HeartbeatRequest, now_ms: int) -> None:
        is_of_consumers = request.group_id in self.consumer.groups
        beat = self.consumer.heartbeat_of_classic if is_of_consumers else self.classic.heartbeat
        self.outbox.answer(token, beat(request, now_ms))

    def leave(
        self, token: Token[list[ErrorCode]], group_id: str, leaving: Sequence[MemberIdentity], now_ms: int
    ) -> None:
        """One code for each member, in their order."""
        if group_id in self.consumer.groups:
            self._decided(token, self.consumer.leave(group_id, leaving, now_ms))
        else:
            self.outbox.answer(token, self.classic.leave(group_id, leaving, now_ms))

    def commit(
        self,
        token: Token[list[ErrorCode]],
        request: OffsetCommitRequest,
        version: int,
        records: Sequence[Record],
        now_ms: int,
    ) -> None:
        """Keep offsets that the caller has looked up and made records of; one code for each, in their order.

        GROUP_ID_NOT_FOUND is for versions from 9 on; clients of older ones know ILLEGAL_GENERATION instead.
        """
        refusal = self._check_commit(request, records, version, now_ms)
        if refusal:
            self.outbox.answer(token, [refusal] * len(records))
            return
        self._commit(token, records)

    def commit_in_transaction(
        self,
        token: Token[list[ErrorCode]],
        request: TxnOffsetCommitRequest,
        version: int,
        records: Sequence[Record],
        now_ms: int,
    ) -> None:
        """Keep offsets that count when their producer's transaction is committed; the records name the producer."""
        member = OffsetCommitRequest(
            group_id=request.group_id,
            generation_id_or_member_epoch=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id,
            topics=[],
        )
        refusal = self._check_commit(member, records, version, now_ms, is_transactional=True)
        if refusal:
            if refusal == ErrorCode.GROUP_ID_NOT_FOUND:
                refusal = ErrorCode.ILLEGAL_GENERATION
            self.outbox.answer(token, [refusal] * len(records))
            return
        self._commit(token, records)

    def _commit(self, token: Token[list[ErrorCode]], records: Sequence[Record]) -> None:
        topics = self._topics()
        codes = [self._refusal_of(one, topics) for one in records]
        kept = [one for one, code in zip(records, codes) if not code]
        self._counts.offset_commits += len(kept)
        self.outbox.write(kept)
        self.outbox.answer(token, codes)

    def _refusal_of(self, commit: Record, topics: Topics) -> ErrorCode:
        key, value = commit.key, commit.value
        assert isinstance(key, OffsetCommitKey)
        assert isinstance(value, OffsetCommitValue), "a commit has an offset"
        if len(value.metadata) > self._settings.max_offset_metadata_size:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        # It was looked up some turns ago; since then the topic may have been deleted, and made anew.
        is_there = is_id_of(value.topic_id, topics.get(key.topic))
        return ErrorCode.NONE if is_there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def committed(
        self, token: Token[ErrorCode | Committed], request: OffsetFetchRequestGroup, *, require_stable: bool = False
    ) -> None:
        """The offsets of a group, none for one that is not known; or why they are not told."""
        group = self.consumer.groups.get(request.group_id)
        refusal = ErrorCode.NONE
        if group is not None:
            refusal = check_fetch(group, request.member_id, request.member_epoch)
        unstable = self.offsets.unstable_of(request.group_id, self._topics()) if require_stable else frozenset()
        self.outbox.answer(token, refusal or Committed(self.offsets.of(request.group_id), unstable))

    def delete_offsets(
        self, token: Token[ErrorCode | list[ErrorCode]], group_id: str, wanted: Sequence[tuple[str, int]]
    ) -> None:
        """The answer is a code for all of them, or one for each."""
        group = self.classic.find(group_id) or self.consumer.groups.get(group_id)
        if group is None:
            self.outbox.answer(token, ErrorCode.GROUP_ID_NOT_FOUND)
            return
        is_empty = isinstance(group, Group) and group.state is ClassicGroupState.EMPTY
        if isinstance(group, Group) and not is_empty and not group.is_of_consumers:
            self.outbox.answer(token, ErrorCode.NON_EMPTY_GROUP)
            return
        codes = []
        for topic, partition in wanted:
            is_used = not is_empty and group.is_subscribed(topic)
            codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_used else ErrorCode.NONE)
            deletion = None if is_used else self.offsets.deletion(group_id, topic, partition)
            if deletion is not None:
                self._counts.offset_deletions += 1
                self.outbox.write([deletion])
        self.outbox.answer(token, codes)

    def delete_group(self, token: Token[ErrorCode], group_id: str) -> None:
        classic, consumer = self.classic.find(group_id), self.consumer.groups.get(group_id)
        if classic is None and consumer is None:
            self.outbox.answer(token, ErrorCode.GROUP_ID_NOT_FOUND)
            return
        if (classic is not None and classic.state is not ClassicGroupState.EMPTY) or (
            consumer is not None and consumer.members
        ):
            self.outbox.answer(token, ErrorCode.NON_EMPTY_GROUP)
            return
        self.outbox.write(self.offsets.deletion_of_group(group_id))
        self.outbox.write([group_records.deletion(group_id)] if consumer is None else group_tombstones(consumer))
        self.outbox.answer(token, ErrorCode.NONE)

    def consumer_heartbeat(
        self,
        token: Token[ConsumerGroupHeartbeatResponse],
        request: ConsumerGroupHeartbeatRequest,
        client: Client,
        now_ms: int,
    ) -> None:
        self._decided(token, self.consumer.heartbeat(request, client, now_ms))

    def consumer_describe(
        self, token: Token[consumer_group_describe.DescribedGroup], group_id: str, now_ms: int
    ) -> None:
        self.outbox.answer(token, self.consumer.describe(group_id, now_ms))

    def describe(self, token: Token[DescribedGroup], group_id: str) -> None:
        group = self.classic.find(group_id)
        if group is not None:
            self.outbox.answer(token, described(group))
            return
        is_other = group_id in self.consumer.groups
        reason = f"Group {group_id} is not a classic group." if is_other else f"Group {group_id} not found."
        self.outbox.answer(token, unknown(group_id, reason))

    def listing(self) -> Iterator[ListedGroup]:
        """The groups there are now, also where the caller takes them in slices."""
        classic, consumer = tuple(self.classic.all()), tuple(self.consumer.groups.values())
        yield from map(listed, classic)
        for group in consumer:
            yield ListedGroup(
                group_id=group.group_id, protocol_type=CONSUMER, group_state=group.state.value, group_type=CONSUMER
            )

    def on_topics(self, names: Iterable[str], now_ms: int) -> None:
        """Topics were made or changed, or are gone."""
        self.consumer.on_image(names, now_ms)

    def forget_topics(self, names: Iterable[str], now_ms: int) -> None:
        """Topics are gone, and what was committed for them."""
        self._chores.add([TopicDeletion(self.offsets, name, self._topics, now_ms) for name in names])
        self._do_chores(now_ms)

    def _decided(self, token: Token[Reply], decision: Decision[Reply]) -> None:
        self._write_consumer(decision.records)
        self.outbox.answer(token, decision.reply)

    def _write_consumer(self, records: Sequence[Record]) -> None:
        for one in records:
            self._counts.consumer_rebalances += isinstance(one.key, ConsumerGroupMetadataKey) and one.value is not None
        self.outbox.write(records)
        for group in self.consumer.take_downgrades():
            self.outbox.then.append(partial(self._go_back, group))

    def _go_back(self, group: Group, now_ms: int) -> None:
        self.consumer.forget_timers(group)
        self.classic.adopt(group, now_ms)

    def _has_group(self, group_id: str) -> bool:
        return self.classic.find(group_id) is not None or group_id in self.consumer.groups

    def _check_commit(
        self,
        request: OffsetCommitRequest,
        records: Sequence[Record],
        version: int,
        now_ms: int,
        *,
        is_transactional: bool = False,
    ) -> ErrorCode:
        classic = self.classic.find(request.group_id)
        if classic is not None:
            return self.classic.check_commit(classic, request, now_ms, is_transactional=is_transactional)
        epoch = request.generation_id_or_member_epoch
        consumer = self.consumer.groups.get(request.group_id)
        if consumer is None:
            return ErrorCode.GROUP_ID_NOT_FOUND if epoch >= 0 else ErrorCode.NONE
        committer = Committer(request.member_id, request.group_instance_id, epoch, version, is_transactional)
        topics = self._topics()
        keys = (one.key for one in records if isinstance(one.key, OffsetCommitKey))
        partitions = ((topics[key.topic].topic_id, key.partition) for key in keys if key.topic in topics)
        return check_commit(consumer, committer, partitions)

    def _topics(self) -> Topics:
        return self._cluster.image().topics

    def _topics_if_known(self) -> Topics | None:
        image = self._cluster.image()
        return None if image.offset < 0 else image.topics

    def _add_cleanups(self, group_ids: list[str], rules: Callable[[str], GroupRules | None], now_ms: int) -> None:
        retention_ms = self._settings.offsets_retention_ms
        self._chores.add(GroupCleanup(self.offsets, one, rules, retention_ms, now_ms) for one in group_ids)

    def _do_chores(self, now_ms: int) -> None:
        records = self._chores.next_records()
        self._counts.offset_expirations += sum(isinstance(one.key, OffsetCommitKey) for one in records)
        self.outbox.write(records)
        if self._chores:
            self._timers.set(GroupUpkeep.CHORES, now_ms + CHORE_INTERVAL_MS)

    def _rules_of(self, group_id: str) -> GroupRules | None:
        group = self.classic.find(group_id)
        if group is None:
            return None
        is_in_use = group.state is not ClassicGroupState.EMPTY or group.pending or self.offsets.has_pending(group_id)
        end = [] if is_in_use else [group_records.deletion(group_id)]
        return GroupRules(_expiry_of(group), end, self._topics_if_known())

    def _rules_of_consumer(self, group_id: str) -> GroupRules | None:
        group = self.consumer.groups.get(group_id)
        if group is None:
            return None

        def since_ms(topic: str, committed: CommittedOffset) -> int | None:
            return None if group.is_subscribed(topic) else committed.committed_ms

        is_in_use = bool(group.members) or self.offsets.has_pending(group_id)
        end = [] if is_in_use else group_tombstones(group)
        return GroupRules(since_ms, end, self._topics_if_known())


def _expiry_of(group: Group) -> Callable[[str, CommittedOffset], int | None]:
    """From when on an offset of a group ages (KIP-211), None where it does not."""

    def since_ms(topic: str, committed: CommittedOffset) -> int | None:
        if group.protocol_type is None:
            return committed.committed_ms
        if group.state is ClassicGroupState.EMPTY:
            return committed.committed_ms if group.state_since_ms is None else group.state_since_ms
        if group.state is ClassicGroupState.STABLE and group.is_of_consumers and not group.is_subscribed(topic):
            return committed.committed_ms
        return None

    return since_ms
