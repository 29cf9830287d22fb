"""What follows for a group when a member says what it wants: its epoch, its target, and the member's next step."""

from collections.abc import Sequence

from levada.coordination.decision import Record
from levada.groups.consumer.group import Check, ConsumerGroup
from levada.groups.consumer.group_context import ConsumerTimer, ConsumerTimerKind, GroupContext
from levada.groups.consumer.group_records import (
    current_assignment_record,
    epoch_record,
    partition_metadata_tombstone,
    regex_record,
    subscription_record,
)
from levada.groups.consumer.member import ConsumerGroupMember, MemberState, Owned
from levada.groups.consumer.reconciliation import Reconciliation
from levada.groups.consumer.regexes import check_syntax, needs_refresh
from levada.groups.consumer.target import MemberTarget, is_due, last_target, new_target
from levada.groups.consumer.topics import subscribed_ids


class SubscriptionUpdate:
    """A change of one member's subscription on its way through the group; `records` grows with every step."""

    def __init__(
        self,
        context: GroupContext,
        group: ConsumerGroup,
        old: ConsumerGroupMember,
        new: ConsumerGroupMember,
        now_ms: int,
    ) -> None:
        self.records: list[Record] = []
        self._context = context
        self._image = context.image()
        self._group = group
        self._old = old
        """The member as it was; of a static member's successor, its predecessor under the new id."""
        self.member = new
        self._now_ms = now_ms
        self.epoch = group.epoch
        """The group's, after what was decided so far."""
        self.has_new_subscription = False

    def subscribe(self) -> None:
        """Write down what the member says of itself; what it wants may give the group a new epoch."""
        old, new = self._old, self.member
        if new != old:
            self.records.append(subscription_record(self._group.group_id, new))
        has_new_names = new.topic_names != old.topic_names
        has_new_regex = new.topic_regex != old.topic_regex
        is_regex_known = self._apply_regex() if has_new_regex else False
        self._plan_refresh()
        self.has_new_subscription = has_new_names or has_new_regex
        # An expression that no member has used before counts when it has been matched, unless the classic protocol,
        # which has none, takes the place of one.
        must_bump = has_new_names or is_regex_known or (has_new_regex and new.uses_classic_protocol)
        if must_bump or self._is_unchecked():
            self._check_topics(must_bump=must_bump)

    def assign(self) -> MemberTarget:
        """The member's part of the target, which is made anew if it is time."""
        context, group = self._context, self._group
        interval_ms = context.settings.assignment_interval_ms(context.group_config(group.group_id))
        if not is_due(group, self.epoch, interval_ms, self._now_ms):
            return last_target(group, self.member)
        records, target = new_target(
            group,
            self.epoch,
            self._old,
            self.member,
            default_assignor=context.settings.assignors[0],
            image=self._image,
            now_ms=self._now_ms,
        )
        self.records += records
        return target

    def reconcile(self, target: MemberTarget, owned: Sequence[Owned] | None) -> ConsumerGroupMember:
        """The member after a step towards its target."""
        member = self.member
        if member.is_reconciled_to(target.epoch) and not self.has_new_subscription:
            return member
        subscribed = subscribed_ids(self._group, member, self._image)
        step = Reconciliation(target.epoch, target.target, subscribed, owned, self._group.is_owned)
        after = step.next(member, has_new_subscription=self.has_new_subscription)
        if after == member:
            return member
        self.records.append(current_assignment_record(self._group.group_id, after))
        if after.state is MemberState.UNREVOKED_PARTITIONS and not after.uses_classic_protocol:
            timer = ConsumerTimer(self._group.group_id, ConsumerTimerKind.REBALANCE, after.member_id)
            self._context.timers.set(timer, self._now_ms + after.rebalance_timeout_ms)
        return after

    def _apply_regex(self) -> bool:
        """The member's regular expression is another; whether it is known already which topics that means."""
        group, old, new = self._group, self._old.topic_regex, self.member.topic_regex
        if old and group.regexes[old] == 1:
            self.records.append(regex_record(group.group_id, old, None))
        if not new:
            return bool(old)
        if new not in group.regexes:
            check_syntax(new)
            return False
        return new in group.resolved

    def _plan_refresh(self) -> None:
        context = self._context
        must_refresh = needs_refresh(
            self._group,
            self._old,
            self.member,
            now_ms=self._now_ms,
            new_topics_at=context.new_topics_at,
            interval_ms=context.settings.regex_refresh_interval_ms,
        )
        if must_refresh and self._group.group_id not in context.resolutions:
            context.timers.set(ConsumerTimer(self._group.group_id, ConsumerTimerKind.REGEX), self._now_ms)

    def _is_unchecked(self) -> bool:
        """Whether topics may have changed since the group looked, or what it saw was not written."""
        checked = self._group.checked
        return checked is None or checked.image_offset != self._image.offset or self._group.epoch < checked.epoch

    def _check_topics(self, *, must_bump: bool) -> None:
        group = self._group
        names = group.topics_if([self._old], [self.member])
        metadata_hash = self._context.hashes.of_group(names, self._image)
        if must_bump or metadata_hash != group.metadata_hash:
            self.epoch += 1
            self.records.append(epoch_record(group.group_id, self.epoch, metadata_hash))
        group.checked = Check(self._image.offset, self.epoch)
        if group.has_partition_metadata:
            self.records.append(partition_metadata_tombstone(group.group_id))
