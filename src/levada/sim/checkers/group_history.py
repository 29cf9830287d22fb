"""What must be true of a group whatever happens to it: which member has a partition, and where reading left off."""

from dataclasses import dataclass, field
from math import inf

from levada.sim.checkers.check_failed import CheckFailed
from levada.sim.checkers.partition_log import Partition

NOTHING_COMMITTED = -1


@dataclass(slots=True, eq=False)
class SentCommit:
    """One offset that a member wanted kept; its label goes with it as metadata, so that a reader knows which it is."""

    label: str
    offset: int
    sent_s: float
    ended_s: float = inf
    """After this it has happened or never will."""
    is_acknowledged: bool = False
    is_refused: bool = False


@dataclass(slots=True)
class OffsetHistory:
    """The commits of one group. What is read must be the last one, or one that was under way at the same time."""

    commits: dict[Partition, dict[str, SentCommit]] = field(default_factory=dict)
    acknowledged: int = 0

    def send(self, partition: Partition, label: str, offset: int, now_s: float) -> SentCommit:
        commit = SentCommit(label, offset, now_s)
        self.commits.setdefault(partition, {})[label] = commit
        return commit

    def acknowledge(self, commit: SentCommit, now_s: float) -> None:
        commit.is_acknowledged, commit.ended_s = True, now_s
        self.acknowledged += 1

    def refuse(self, commit: SentCommit, now_s: float) -> None:
        commit.is_refused, commit.ended_s = True, now_s

    def crash(self, now_s: float) -> None:
        """What the broker had not done when it died it will not do."""
        for commits in self.commits.values():
            for commit in commits.values():
                commit.ended_s = min(commit.ended_s, now_s)

    def check_read(self, partition: Partition, label: str, offset: int, asked_s: float, now_s: float) -> None:
        """Compare what a group was told about a partition between two times with what was committed."""
        commits = self.commits.get(partition, {})
        ended_s = -inf
        if offset != NOTHING_COMMITTED:
            found = commits.get(label)
            if found is None or found.offset != offset:
                raise CheckFailed(f"{partition} is at {offset} {label!r}, which no member committed")
            if found.is_refused:
                raise CheckFailed(f"{partition} is at {offset} {label!r}, which was refused")
            # It has happened: what is sent from now on comes after it.
            ended_s = found.ended_s = min(found.ended_s, now_s)
        for later in commits.values():
            if later.is_acknowledged and later.sent_s > ended_s and later.ended_s < asked_s:
                told = f"{later.offset} {later.label!r}, acknowledged at {later.ended_s:.3f} s"
                raise CheckFailed(f"{partition} is at {offset} {label!r} and not at {told}")


@dataclass(slots=True, eq=False)
class _Overlap:
    """Two members have one partition, so one of them must be out."""

    partition: Partition
    first: str
    second: str
    since_s: float
    is_order_known: bool
    """Whether it is the first who must be out; else both asked at the same time, and it is either."""
    accepted: dict[str, None] = field(default_factory=dict)


@dataclass(slots=True)
class PartitionOwners:
    """Which members have the partitions of one group, by what they were told and have not given up yet.

    A partition may go to another while a member still has it only if that one is out: its heartbeats and commits must
    be refused from then on, until it has joined anew.
    """

    _owners: dict[Partition, dict[str, float]] = field(default_factory=dict)
    """With the time since when."""
    _overlaps: list[_Overlap] = field(default_factory=list)

    def take(self, member: str, partition: Partition, asked_s: float, now_s: float) -> None:
        """A member hears that it has a partition, in answer to what it asked then."""
        owners = self._owners.setdefault(partition, {})
        for other, since_s in owners.items():
            if other != member:
                self._overlaps.append(_Overlap(partition, other, member, now_s, since_s < asked_s))
        owners[member] = now_s

    def give_up(self, member: str, partition: Partition) -> None:
        self._owners.get(partition, {}).pop(member, None)

    def forget(self, member: str) -> None:
        """It knows that it is out, or is no more."""
        for owners in self._owners.values():
            owners.pop(member, None)
        self._overlaps = [one for one in self._overlaps if member not in (one.first, one.second)]

    def confirm(self, member: str, sent_s: float, what: str) -> None:
        """The coordinator has accepted something that is for members only."""
        for one in self._overlaps:
            if member not in (one.first, one.second) or sent_s <= one.since_s:
                continue
            one.accepted[member] = None
            if one.first in one.accepted and (one.is_order_known or one.second in one.accepted):
                reason = f"{one.partition} went from {one.first} to {one.second} at {one.since_s:.3f} s"
                raise CheckFailed(f"{what} of {member} at {sent_s:.3f} s was accepted although {reason}")


@dataclass(slots=True)
class Generations:
    """Whose assignment each generation of a classic group has: one leader's, and that one for all."""

    _marks: dict[int, str] = field(default_factory=dict)

    def learn(self, generation: int, mark: str) -> None:
        known = self._marks.setdefault(generation, mark)
        if known != mark:
            raise CheckFailed(f"generation {generation} has assignment {known} and also {mark}")


@dataclass(slots=True)
class GroupHistory:
    """All that is known of one group."""

    group_id: str
    is_mixed: bool = False
    """Whether it has members of both protocols, and may change between them at any time."""
    offsets: OffsetHistory = field(default_factory=OffsetHistory)
    ownership: PartitionOwners = field(default_factory=PartitionOwners)
    generations: Generations = field(default_factory=Generations)
    broker_since_s: float = 0.0
    """When the broker was started last."""
    calm_since_s: float = inf
    """From when on nothing goes wrong any more, so that a member that waits must be answered."""
    stale_commits: int = 0
    """That were sent and refused, as they must be."""
