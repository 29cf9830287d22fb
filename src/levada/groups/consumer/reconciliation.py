"""How a member comes from what it has to its target: it gives up first, and gets only what no other still has."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from levada.groups.consumer.member import ConsumerGroupMember, MemberState, Owned, Partitions, Target, has_any
from levada.groups.consumer.refusals import fenced_epoch


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What one step of a member depends on."""

    target_epoch: int
    target: Target
    subscribed: Collection[bytes]
    """Ids of the topics it wants; a target made before it changed its mind may hold others."""
    owned: Sequence[Owned] | None
    """What the member says it has; None if it says nothing, because it has not changed."""
    is_owned: Callable[[bytes, int], bool]
    """Whether a member has a partition, or has not given it up yet."""

    def next(self, member: ConsumerGroupMember, *, has_new_subscription: bool) -> ConsumerGroupMember:
        """The member after its heartbeat."""
        if member.state is MemberState.STABLE and member.epoch == self.target_epoch:
            return self._give_up_unsubscribed(member) if has_new_subscription else member
        if member.state is MemberState.UNREVOKED_PARTITIONS and self._still_has(member.revoking):
            return self._give_up_unsubscribed(member) if has_new_subscription else member
        if member.state is MemberState.UNKNOWN:
            if self.owned is None or self.owned:
                raise fenced_epoch("is in a unknown state")
            return self._towards_target(member, self.target_epoch)
        return self._towards_target(member, member.epoch)

    def _still_has(self, partitions: Partitions) -> bool:
        return self.owned is None or has_any(partitions, self.owned)

    def _give_up_unsubscribed(self, member: ConsumerGroupMember) -> ConsumerGroupMember:
        """Do not wait for the next target with what the member does not want any more."""
        unwanted = {topic: epochs for topic, epochs in member.assigned.items() if topic not in self.subscribed}
        if not unwanted:
            return member
        assigned = {topic: epochs for topic, epochs in member.assigned.items() if topic not in unwanted}
        revoking = {
            topic: {**member.revoking.get(topic, {}), **unwanted.get(topic, {})}
            for topic in (*member.revoking, *(topic for topic in unwanted if topic not in member.revoking))
        }
        if not self._still_has(revoking):
            return replace(member, previous_epoch=member.epoch, assigned=assigned)
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            previous_epoch=member.epoch,
            assigned=assigned,
            revoking=revoking,
        )

    def _towards_target(self, member: ConsumerGroupMember, epoch: int) -> ConsumerGroupMember:
        """Give up what is not in the target; when that is done, take the epoch and what is free of the rest."""
        kept: dict[bytes, dict[int, int]] = {}
        revoking: dict[bytes, dict[int, int]] = {}
        for topic_id, epochs in member.assigned.items():
            wanted = frozenset(self._wanted(topic_id))
            for partition, since in epochs.items():
                where = kept if partition in wanted else revoking
                where.setdefault(topic_id, {})[partition] = since
        if revoking and self._still_has(revoking):
            return replace(
                member,
                state=MemberState.UNREVOKED_PARTITIONS,
                epoch=epoch,
                previous_epoch=member.epoch,
                assigned=kept,
                revoking=revoking,
            )
        is_waiting = False
        for topic_id in self.target:
            for partition in self._wanted(topic_id):
                if partition in kept.get(topic_id, ()):
                    continue
                if self.is_owned(topic_id, partition) and not member.is_revoking(topic_id, partition):
                    is_waiting = True
                else:
                    kept.setdefault(topic_id, {})[partition] = self.target_epoch
        return replace(
            member,
            state=MemberState.UNRELEASED_PARTITIONS if is_waiting else MemberState.STABLE,
            epoch=self.target_epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking={},
        )

    def _wanted(self, topic_id: bytes) -> tuple[int, ...]:
        return self.target.get(topic_id, ()) if topic_id in self.subscribed else ()
