"""All consumer groups of a coordinator (KIP-848): decisions are made of records, and only records change a group."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from levada.coordination.decision import Decision, Record
from levada.coordination.timers import Deadlines
from levada.groups.consumer import classic_members, description
from levada.groups.consumer.group import Check, ConsumerGroup
from levada.groups.consumer.group_context import Client, ConsumerTimer, ConsumerTimerKind, GroupContext
from levada.groups.consumer.group_records import epoch_record, regex_record
from levada.groups.consumer.heartbeats import heartbeat
from levada.groups.consumer.leaving import leave, without
from levada.groups.consumer.member import (
    JOINING,
    LEAVING,
    LEAVING_FOR_NOW,
    ConsumerGroupMember,
    MemberState,
    nothing,
)
from levada.groups.consumer.migration import check_upgrade, upgrade
from levada.groups.consumer.refusals import Refusal, group_not_found, not_a_consumer_group
from levada.groups.consumer.regexes import Resolution
from levada.groups.consumer.replay import replay
from levada.groups.consumer.settings import ConsumerGroupSettings
from levada.groups.consumer.validation import check_request
from levada.groups.group import ClassicGroupState, Group
from levada.groups.group_records import deletion
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_describe import DescribedGroup
from levada.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from levada.protocol.messages.leave_group import MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

RETRY_MS = 500
"""When a timer is tried again whose records could not be written."""

STEP_PAUSE_MS = 1
"""Between two steps of matching, so that others have their turn."""


class ConsumerGroups:
    """`heartbeat` and `expire` decide; `apply` changes; timers and what is being matched is all that is volatile."""

    def __init__(
        self,
        settings: ConsumerGroupSettings,
        timers: Deadlines[ConsumerTimer],
        random_bytes: Callable[[int], bytes],
        image: Callable[[], Image],
        group_config: Callable[[str], Mapping[str, str]] = lambda _: nothing(),
        find_classic: Callable[[str], Group | None] = lambda _: None,
    ) -> None:
        self.groups: dict[str, ConsumerGroup] = {}
        self._context = GroupContext(settings, timers, random_bytes, image, group_config, find_classic)
        self._last_image: Image | None = None

    def reconfigure(self, settings: ConsumerGroupSettings) -> None:
        """Some settings change while the broker runs."""
        self._context.settings = settings

    def heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, client: Client, now_ms: int
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        try:
            check_request(request, client.version, self._context.settings.assignors)
            if request.member_epoch in (LEAVING, LEAVING_FOR_NOW):
                return leave(self._context, self._existing(request.group_id), request, now_ms)
            group, records = self._found_or_made(request, now_ms)
            decision = heartbeat(self._context, group, request, client, now_ms)
        except Refusal as refusal:
            return Decision((), _refused(refusal))
        return Decision([*records, *decision.records], decision.reply)

    def join(self, request: JoinGroupRequest, client: Client, now_ms: int) -> Decision[JoinGroupResponse]:
        """JoinGroup to a consumer group that has members; a classic group takes the place of one that has none."""
        try:
            return classic_members.join(self._context, self._existing(request.group_id), request, client, now_ms)
        except Refusal as refusal:
            reply = JoinGroupResponse(error_code=refusal.code, protocol_name="", leader="", member_id="", members=[])
            return Decision((), reply)

    def sync(self, request: SyncGroupRequest, now_ms: int) -> SyncGroupResponse:
        """SyncGroup; nothing is written."""
        try:
            return classic_members.sync(self._context, self._with_members(request.group_id), request, now_ms)
        except Refusal as refusal:
            return SyncGroupResponse(error_code=refusal.code, assignment=b"")

    def heartbeat_of_classic(self, request: HeartbeatRequest, now_ms: int) -> ErrorCode:
        """Heartbeat; nothing is written."""
        try:
            return classic_members.heartbeat(self._context, self._with_members(request.group_id), request, now_ms)
        except Refusal as refusal:
            return refusal.code

    def leave(self, group_id: str, leaving: Sequence[MemberIdentity], now_ms: int) -> Decision[list[ErrorCode]]:
        """LeaveGroup; members of either protocol can be made to leave."""
        group = self.groups.get(group_id)
        if group is None:
            return Decision((), [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving))
        return classic_members.leave(self._context, group, leaving, now_ms)

    def take_downgrades(self) -> list[Group]:
        """Classic groups that take the place of consumer groups with the records of the last decision.

        Their record keeps one protocol of each member, they know all: put them into their place when it is applied.
        """
        downgrades, self._context.downgrades = self._context.downgrades, []
        return downgrades

    def forget_timers(self, group: Group) -> None:
        """What members of a group were given time for is of the past when it has become classic."""
        for member_id in group.members:
            for kind in ConsumerTimerKind:
                timer = ConsumerTimer(group.group_id, kind, member_id)
                self._context.timers.cancel(timer)
                self._context.told_to_join.pop(timer, None)

    def describe(self, group_id: str, now_ms: int) -> DescribedGroup:
        """Nothing of it depends on the time."""
        try:
            if not group_id:
                raise Refusal(ErrorCode.INVALID_GROUP_ID)
            group = self._existing(group_id)
        except Refusal as refusal:
            return description.refuse(group_id, refusal)
        return description.describe(group, self._context.settings.assignors[0], self._context.image())

    def expire(self, timer: ConsumerTimer, now_ms: int) -> Sequence[Record]:
        """What follows from a timer that has come up."""
        group = self.groups.get(timer.group_id)
        if timer.kind is ConsumerTimerKind.REGEX:
            return self._match(timer, group, now_ms)
        member = None if group is None else group.members.get(timer.member_id)
        if group is None or member is None:
            self._context.told_to_join.pop(timer, None)
            return ()
        if not self._is_meant(timer, member):
            return ()
        logger.info("fenced group=%r member=%r: %s", group.group_id, member.member_id, timer.kind.value)
        self._context.timers.set(timer, now_ms + RETRY_MS)
        return without(self._context, group, [member], now_ms)

    def apply(self, record: Record) -> None:
        replay(self.groups, record)

    def on_loaded(self, now_ms: int) -> None:
        """Sessions begin anew: a member that the last coordinator knew has time to find this one."""
        context = self._context
        context.new_topics_at = context.image().offset
        self._last_image = context.image()
        for group in self.groups.values():
            for member in group.members.values():
                context.restart_session(group.group_id, member.member_id, now_ms)
                if member.state is MemberState.UNREVOKED_PARTITIONS:
                    timer = ConsumerTimer(group.group_id, ConsumerTimerKind.REBALANCE, member.member_id)
                    context.timers.set(timer, now_ms + member.rebalance_timeout_ms)

    def on_image(self, topic_names: Iterable[str], now_ms: int) -> None:
        """These topics were created, changed or deleted; groups see it with their next heartbeat."""
        context, image = self._context, self._context.image()
        names = list(topic_names)
        context.hashes.forget(name for name in names if name not in image.topics)
        known = {} if self._last_image is None else self._last_image.topic_names
        if any(name in image.topics and image.topics[name].topic_id not in known for name in names):
            context.new_topics_at = image.offset
        self._last_image = image

    def _existing(self, group_id: str) -> ConsumerGroup:
        group = self.groups.get(group_id)
        if group is not None:
            return group
        raise (
            group_not_found(group_id)
            if self._context.find_classic(group_id) is None
            else not_a_consumer_group(group_id)
        )

    def _with_members(self, group_id: str) -> ConsumerGroup:
        """For members of the classic protocol, who have never heard of groups that do not exist."""
        group = self.groups.get(group_id)
        if group is None:
            raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID)
        return group

    def _is_meant(self, timer: ConsumerTimer, member: ConsumerGroupMember) -> bool:
        """Whether the member has not done what the timer gave it time for."""
        if timer.kind is ConsumerTimerKind.SESSION:
            return True
        if timer.kind is ConsumerTimerKind.REBALANCE:
            return member.state is MemberState.UNREVOKED_PARTITIONS and not member.uses_classic_protocol
        if timer.kind is ConsumerTimerKind.JOIN and timer not in self._context.told_to_join:
            return False
        return member.uses_classic_protocol

    def _found_or_made(self, request: ConsumerGroupHeartbeatRequest, now_ms: int) -> tuple[ConsumerGroup, list[Record]]:
        """The group, or a new one that begins to exist with its first records."""
        group_id = request.group_id
        group = self.groups.get(group_id)
        if group is not None:
            return group, []
        classic = self._context.find_classic(group_id)
        if classic is None and request.member_epoch != JOINING:
            raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {group_id} not found.")
        if classic is None:
            return ConsumerGroup(group_id), []
        if request.member_epoch != JOINING:
            raise not_a_consumer_group(group_id)
        if classic.state is ClassicGroupState.EMPTY:
            return ConsumerGroup(group_id), [deletion(group_id)]
        check_upgrade(classic, self._context.settings)
        group, records = upgrade(classic, self._context.image())
        for member in classic.members.values():
            self._context.restart_session(group_id, member.member_id, now_ms, member.session_timeout_ms)
        return group, records

    def _match(self, timer: ConsumerTimer, group: ConsumerGroup | None, now_ms: int) -> Sequence[Record]:
        """Match a group's regular expressions with all topics, or with some of them and the rest a little later."""
        resolutions = self._context.resolutions
        if group is None:
            resolutions.pop(timer.group_id, None)
            return ()
        if timer.group_id not in resolutions:
            resolutions[timer.group_id] = Resolution.of(group.regexes, self._context.image())
        resolution = resolutions[timer.group_id]
        if not resolution.step():
            self._context.timers.set(timer, now_ms + STEP_PAUSE_MS)
            return ()
        del resolutions[timer.group_id]
        return self._matched(group, resolution, now_ms)

    def _matched(self, group: ConsumerGroup, resolution: Resolution, now_ms: int) -> Sequence[Record]:
        """Take up what was matched; other topics than before give the group a new epoch."""
        records = []
        matched, has_changed = group.matched_topics.copy(), False
        for regex, resolved in resolution.results(now_ms).items():
            if regex not in group.regexes:
                continue
            before = group.resolved[regex].topics if regex in group.resolved else ()
            if before != resolved.topics:
                has_changed = True
                matched.remove(before)
                matched.add(resolved.topics)
            records.append(regex_record(group.group_id, regex, resolved))
        image = self._context.image()
        metadata_hash = self._context.hashes.of_group(dict.fromkeys((*group.named_topics, *matched)), image)
        if has_changed or metadata_hash != group.metadata_hash:
            records.append(epoch_record(group.group_id, group.epoch + 1, metadata_hash))
            group.checked = Check(image.offset, group.epoch + 1)
        return records


def _refused(refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=refusal.code, error_message=refusal.text, member_epoch=0, heartbeat_interval_ms=0
    )
