"""What the members of a group read, and what must be true of it, whatever happened to them and to the broker."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from levada.sim.checkers.check_failed import CheckFailed
from levada.sim.checkers.group_history import PartitionOwners
from levada.sim.checkers.partition_log import LogEntry, Partition


@dataclass(slots=True, eq=False)
class AssignmentPeriod:
    """A partition in the hands of one member, from the callback that gave it to the one that took it."""

    member: str
    partition: Partition


@dataclass(slots=True)
class ReadHistory:
    """What one group read, in the order of time, and which member had the partitions."""

    group_id: str
    is_strict: bool = False
    """Nothing goes wrong, so that no partition may have two owners, not even by a misunderstanding."""
    reads: dict[Partition, list[tuple[AssignmentPeriod, int]]] = field(default_factory=dict)
    runs: dict[tuple[str, Partition], AssignmentPeriod] = field(default_factory=dict)
    ownership: PartitionOwners = field(default_factory=PartitionOwners)
    commits: int = 0
    _committed: dict[Partition, int] = field(default_factory=dict)

    def take(self, member: str, partition: Partition, now_s: float) -> None:
        others = [name for name, owned in self.runs if owned == partition and name != member]
        if others and self.is_strict:
            raise CheckFailed(f"{self.group_id}: {partition} goes to {member} while {others} have it")
        if (member, partition) in self.runs:
            raise CheckFailed(f"{self.group_id}: {partition} is assigned to {member}, which has it")
        self.runs[member, partition] = AssignmentPeriod(member, partition)
        # Which member asked first is not known here: one of two may have it.
        self.ownership.take(member, partition, -inf, now_s)

    def give_up(self, member: str, partition: Partition) -> None:
        if self.runs.pop((member, partition), None) is None:
            raise CheckFailed(f"{self.group_id}: {partition} is taken from {member}, which has it not")
        self.ownership.give_up(member, partition)

    def lose(self, member: str, partitions: Iterable[Partition]) -> None:
        """It has been told that others may have them already."""
        for partition in partitions:
            self.give_up(member, partition)
        self.ownership.forget(member)

    def die(self, member: str) -> None:
        self.ownership.forget(member)
        for name, partition in [one for one in self.runs if one[0] == member]:
            del self.runs[name, partition]

    def commit(self, member: str, sent_s: float) -> None:
        """A commit was accepted."""
        self.commits += 1
        self.ownership.confirm(member, sent_s, "a commit")

    def read(self, member: str, partition: Partition, offset: int) -> None:
        run = self.runs.get((member, partition))
        if run is None:
            raise CheckFailed(f"{self.group_id}: {member} is handed {partition} {offset}, and does not have it")
        self.reads.setdefault(partition, []).append((run, offset))

    def owners(self) -> dict[Partition, list[str]]:
        owners: dict[Partition, list[str]] = {}
        for member, partition in self.runs:
            owners.setdefault(partition, []).append(member)
        return owners

    def rewind(self, member: str, partition: Partition) -> None:
        """It reads once more what it has read."""
        if (member, partition) in self.runs:
            self.runs[member, partition] = AssignmentPeriod(member, partition)

    def check_reads(self, logs: Mapping[Partition, list[LogEntry]]) -> None:
        """Everything was read; no member skipped what none had read, and each went on where it was."""
        for partition, log in logs.items():
            visible = [entry.offset for entry in log if entry.is_visible]
            places = {offset: index for index, offset in enumerate(visible)}
            frontier = 0
            at: dict[AssignmentPeriod, int] = {}
            for run, offset in self.reads.get(partition, ()):
                where = f"{self.group_id}: {partition} {offset} was handed to {run.member}"
                if offset not in places:
                    raise CheckFailed(f"{where}, and is not there")
                place = places[offset]
                if run in at and place != at[run] + 1:
                    raise CheckFailed(f"{where} after {visible[at[run]]}")
                if place > frontier:
                    raise CheckFailed(f"{where}, and no member has read {visible[frontier]}")
                at[run] = place
                frontier = max(frontier, place + 1)
            if frontier != len(visible):
                raise CheckFailed(f"{self.group_id}: no member has read {partition} {visible[frontier]}")

    def check_committed(self, partition: Partition, offset: int | None) -> int:
        """What is committed while nothing goes wrong does not go back; None while the coordinator cannot tell."""
        last = self._committed.get(partition, -1)
        if offset is not None and offset < last:
            raise CheckFailed(f"{self.group_id}: what is committed of {partition} goes back from {last} to {offset}")
        self._committed[partition] = last if offset is None else offset
        return -1 if offset is None else offset

    def last_read(self, partition: Partition) -> int:
        return max((offset for _, offset in self.reads.get(partition, ())), default=-1)


def check_once(logs: Mapping[Partition, list[LogEntry]], source: str, target: str, prefix: bytes) -> None:
    """What was made of each record of one topic is in the other, once, and in order."""
    made: dict[Partition, list[int]] = {}
    for (topic, _), log in logs.items():
        for entry in log:
            if topic == target and entry.is_visible and entry.value.startswith(prefix):
                index, offset = entry.value.split(b"|")[1:3]
                made.setdefault((source, int(index)), []).append(int(offset))
    for partition, log in logs.items():
        if partition[0] == source:
            wanted = [entry.offset for entry in log if entry.is_visible]
            found = made.get(partition, [])
            if found != wanted:
                odd = next((pair for pair in zip(wanted, found) if pair[0] != pair[1]), "the end")
                counts = f"{len(found)} records were made of {len(wanted)} in {partition}"
                raise CheckFailed(f"not once each and in order: {counts}, the first difference is {odd}")
