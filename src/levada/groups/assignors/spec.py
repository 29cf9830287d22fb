"""What an assignor is told about the members of a group, and what it answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class MemberSpec:
    topics: Sequence[bytes]
    """Ids of the topics it subscribes to."""
    current: Mapping[bytes, Sequence[int]]
    """What it is to own at present: topic id -> partitions."""
    instance_id: str | None = None
    rack: str | None = None


class AssignmentError(Exception):
    """The group cannot be assigned, for example because a topic is not known."""


Assignment: TypeAlias = dict[str, dict[bytes, list[int]]]
"""Member id -> topic id -> partitions, ascending."""
