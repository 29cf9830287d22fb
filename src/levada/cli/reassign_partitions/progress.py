"""How far a reassignment is: the state of each partition and of each replica that changes directories."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from levada.cli.kit.terminal import paint
from levada.client.admin import PartitionReassignment, Replica, ReplicaPlace, TopicDescription
from levada.client.types import TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    current: tuple[int, ...]
    """Nothing where there is no such partition."""
    target: tuple[int, ...]
    is_under_way: bool

    @property
    def state(self) -> str:
        if self.is_under_way:
            return "in_progress"
        return "complete" if self.current == self.target else "different"


def partition_progress(
    targets: Mapping[TopicPartition, tuple[int, ...]],
    ongoing: Mapping[TopicPartition, PartitionReassignment],
    topics: Mapping[str, TopicDescription],
) -> dict[TopicPartition, PartitionProgress]:
    """In order; `topics` has those that exist."""
    found = {}
    for partition, target in sorted(targets.items()):
        if partition in ongoing:
            found[partition] = PartitionProgress(ongoing[partition].replicas, target, is_under_way=True)
            continue
        described = topics[partition.topic].partitions if partition.topic in topics else ()
        current = next((one.replicas for one in described if one.index == partition.partition), ())
        found[partition] = PartitionProgress(current, target, is_under_way=False)
    return found


def partition_lines(found: Mapping[TopicPartition, PartitionProgress]) -> list[str]:
    lines = ["Status of partition reassignment:"]
    for partition, progress in found.items():
        if progress.is_under_way:
            lines.append(paint(f"Reassignment of partition {partition} is still in progress.", "yellow"))
        elif progress.current == progress.target:
            lines.append(f"Reassignment of partition {partition} is completed.")
        else:
            text = (
                f"There is no active reassignment of partition {partition}, but replica set is"
                f" {_joined(progress.current)} rather than {_joined(progress.target)}."
            )
            lines.append(paint(text, "red"))
    return lines


class MoveState(StrEnum):
    """Of a replica that shall lie in one directory of its broker."""

    MISSING = "missing"
    IN_PROGRESS = "in_progress"
    ELSEWHERE = "moving_elsewhere"
    NOT_MOVING = "not_moving"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class DirectoryProgress:
    target: str
    place: ReplicaPlace

    @property
    def state(self) -> MoveState:
        if self.place.path is None:
            return MoveState.MISSING
        if self.place.future_path is not None:
            return MoveState.IN_PROGRESS if self.place.future_path == self.target else MoveState.ELSEWHERE
        return MoveState.COMPLETE if self.place.path == self.target else MoveState.NOT_MOVING

    @property
    def is_under_way(self) -> bool:
        """Also where the brokers cannot say: a directory may be offline."""
        return self.state in (MoveState.MISSING, MoveState.IN_PROGRESS, MoveState.ELSEWHERE)


def in_order(replica: Replica) -> tuple[int, str, int]:
    return replica.broker, replica.topic, replica.partition


def spelled(replica: Replica) -> str:
    return f"{replica.topic}-{replica.partition}-{replica.broker}"


def directory_lines(found: Mapping[Replica, DirectoryProgress]) -> list[str]:
    return [_directory_line(replica, found[replica]) for replica in sorted(found, key=in_order)]


def _directory_line(replica: Replica, progress: DirectoryProgress) -> str:
    partition, place = f"{replica.topic}-{replica.partition}", progress.place
    match progress.state:
        case MoveState.MISSING:
            return (
                f"Partition {partition} is not found in any live log dir on broker {replica.broker}."
                " There is likely an offline log directory on the broker."
            )
        case MoveState.IN_PROGRESS:
            return f"Reassignment of replica {spelled(replica)} is still in progress."
        case MoveState.ELSEWHERE:
            return (
                f"Partition {partition} on broker {replica.broker} is being moved to log dir {place.future_path}"
                f" instead of {progress.target}."
            )
        case MoveState.NOT_MOVING:
            return (
                f"Partition {partition} on broker {replica.broker} is not being moved from log dir {place.path}"
                f" to {progress.target}."
            )
        case MoveState.COMPLETE:
            return f"Reassignment of replica {spelled(replica)} completed successfully."


def ongoing_lines(ongoing: Mapping[TopicPartition, PartitionReassignment]) -> list[str]:
    """What --list prints."""
    if not ongoing:
        return ["No partition reassignments found."]
    lines = ["Current partition reassignments:"]
    for partition, one in sorted(ongoing.items()):
        adding = f" adding: {_joined(one.adding)}." if one.adding else ""
        removing = f" removing: {_joined(one.removing)}." if one.removing else ""
        lines.append(f"{partition}: replicas: {_joined(one.replicas)}.{adding}{removing}")
    return lines


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))
