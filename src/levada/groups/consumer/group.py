"""One consumer group: what its records add up to, and what is counted from that to decide quickly."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from levada.groups.consumer.member import ConsumerGroupMember, Partitions, Target, nothing

NO_ASSIGNMENT = -1
"""The assignment epoch of a group that is being deleted."""


class ConsumerGroupState(Enum):
    """Named as Kafka names them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    """Its target is older than what it is about."""
    RECONCILING = "Reconciling"
    """Members are on their way to their targets."""
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched in an image."""

    topics: tuple[str, ...]
    version: int
    """The image's offset."""
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Check:
    """When the subscribed topics were looked at last."""

    image_offset: int
    epoch: int
    """The group's epoch after that; a lower one tells that the record of it was not written."""


class Tally:
    """How often each thing is named; those not named are not there."""

    def __init__(self, counts: Mapping[str, int] = nothing()) -> None:
        self._counts = dict(counts)

    def __contains__(self, name: str) -> bool:
        return name in self._counts

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __getitem__(self, name: str) -> int:
        return self._counts.get(name, 0)

    def copy(self) -> "Tally":
        return Tally(self._counts)

    def add(self, names: Iterable[str], count: int = 1) -> None:
        for name in names:
            left = self._counts.get(name, 0) + count
            if left > 0:
                self._counts[name] = left
            else:
                self._counts.pop(name, None)

    def remove(self, names: Iterable[str]) -> None:
        self.add(names, -1)

    def most_named(self) -> str | None:
        """Among equals the last of the alphabet: of the two assignors that is the one Apache happens to take."""
        return max(self._counts, key=lambda name: (self._counts[name], name), default=None)


class ConsumerGroup:
    """Changes only through the methods that `apply` calls."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 1
        self.metadata_hash = 0
        self.assignment_epoch = 1
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ConsumerGroupMember] = {}
        self.targets: dict[str, Target] = {}
        self.resolved: dict[str, ResolvedRegex] = {}
        """By regular expression."""
        self.has_partition_metadata = False
        """Whether a record of releases before 4.1 is to be ended."""
        self.checked: Check | None = None
        """Not of the state: it is forgotten with the process."""
        self.static_ids: dict[str, str] = {}
        self.named_topics = Tally()
        self.matched_topics = Tally()
        self.regexes = Tally()
        self.assignors = Tally()
        self.classic_protocols = Tally()
        self.classic_count = 0
        self._owners: dict[bytes, dict[int, str]] = {}

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        member_id = None if instance_id is None else self.static_ids.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def target_of(self, member_id: str, instance_id: str | None = None) -> Target:
        """A static member has the target of the one whose place it takes."""
        target = self.targets.get(member_id if instance_id is None else self.static_ids.get(instance_id, ""))
        return nothing() if target is None else target

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        return partition in self._owners.get(topic_id, ())

    def is_subscribed(self, topic: str) -> bool:
        return topic in self.named_topics or topic in self.matched_topics

    def topics_if(
        self, leaving: Sequence[ConsumerGroupMember], coming: Sequence[ConsumerGroupMember] = ()
    ) -> Iterable[str]:
        """The topics it is subscribed to when these members have gone or come."""
        named, matched = self.named_topics.copy(), self.matched_topics.copy()
        for member in leaving:
            named.remove(member.topic_names)
        for member in coming:
            named.add(member.topic_names)
        for regex in self.abandoned_regexes(leaving, coming):
            if regex in self.resolved:
                matched.remove(self.resolved[regex].topics)
        return dict.fromkeys((*named, *matched))

    def abandoned_regexes(
        self, leaving: Sequence[ConsumerGroupMember], coming: Sequence[ConsumerGroupMember] = ()
    ) -> list[str]:
        """Regular expressions that no member uses when these have gone or come."""
        left = Tally()
        left.add(member.topic_regex for member in leaving if member.topic_regex)
        kept = {member.topic_regex for member in coming}
        return [regex for regex in left if left[regex] >= self.regexes[regex] and regex not in kept]

    def update_member(self, member: ConsumerGroupMember) -> None:
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        if old is not None:
            self._discount(old, member)
            self._release_instance(old)
        self._count(member, old)
        if member.instance_id is not None:
            self.static_ids[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self._discount(member, None)
        self._release_instance(member)

    def update_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        old = self.resolved.pop(regex, None)
        if old is not None:
            self.matched_topics.remove(old.topics)
        if resolved is not None:
            self.resolved[regex] = resolved
            self.matched_topics.add(resolved.topics)

    def _count(self, new: ConsumerGroupMember, old: ConsumerGroupMember | None) -> None:
        """Add what a member brings; unchanged parts, which are most of them, are not looked at."""
        if old is None or new.topic_names != old.topic_names:
            self.named_topics.add(new.topic_names)
        if new.topic_regex and (old is None or new.topic_regex != old.topic_regex):
            self.regexes.add((new.topic_regex,))
        if new.assignor is not None and (old is None or new.assignor != old.assignor):
            self.assignors.add((new.assignor,))
        if old is None or new.classic is not old.classic:
            self.classic_protocols.add(new.classic_protocols)
            self.classic_count += new.uses_classic_protocol
        if old is None or new.assigned is not old.assigned or new.revoking is not old.revoking:
            self._own(new.assigned, new.member_id)
            self._own(new.revoking, new.member_id)

    def _discount(self, old: ConsumerGroupMember, new: ConsumerGroupMember | None) -> None:
        """Take away what a member had and has no more."""
        if new is None or new.topic_names != old.topic_names:
            self.named_topics.remove(old.topic_names)
        if old.topic_regex and (new is None or new.topic_regex != old.topic_regex):
            self.regexes.remove((old.topic_regex,))
        if old.assignor is not None and (new is None or new.assignor != old.assignor):
            self.assignors.remove((old.assignor,))
        if new is None or new.classic is not old.classic:
            self.classic_protocols.remove(old.classic_protocols)
            self.classic_count -= old.uses_classic_protocol
        if new is None or new.assigned is not old.assigned or new.revoking is not old.revoking:
            self._disown(old.assigned, old.member_id)
            self._disown(old.revoking, old.member_id)

    def _release_instance(self, member: ConsumerGroupMember) -> None:
        if member.instance_id is not None and self.static_ids.get(member.instance_id) == member.member_id:
            del self.static_ids[member.instance_id]

    def _own(self, partitions: Partitions, member_id: str) -> None:
        for topic_id, epochs in partitions.items():
            self._owners.setdefault(topic_id, {}).update(dict.fromkeys(epochs, member_id))

    def _disown(self, partitions: Partitions, member_id: str) -> None:
        """A log that is cleaned while it is read may name another owner already: the later record is right."""
        for topic_id, epochs in partitions.items():
            owners = self._owners.get(topic_id, {})
            for partition in epochs:
                if owners.get(partition) == member_id:
                    del owners[partition]
            if not owners:
                self._owners.pop(topic_id, None)
