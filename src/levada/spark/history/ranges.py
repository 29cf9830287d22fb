"""The part of a topic that is replayed: offsets as they were given, or those of a time range, made exact."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from levada.client.types import TopicPartition

Moment = datetime | str
OffsetRanges = Mapping[int, Sequence[int]] | Mapping[str, Sequence[int]]
EXAMPLE = '{0: (5, 90)} or "2026-11-15T10:00Z"'


class RangeError(ValueError):
    """A range that cannot be replayed; the text is one line that says why."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of one partition."""

    start: int
    end: int
    """Behind the last one."""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise RangeError(f"{self.start} to {self.end} is no range of offsets: the end is behind the last one")

    @property
    def size(self) -> int:
        return self.end - self.start

    def covers(self, first: int, last: int) -> bool:
        return self.start <= first and last < self.end


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Offsets of a topic, by partition; partitions that are not in it are not replayed."""

    topic: str
    partitions: Mapping[int, OffsetRange]

    @property
    def size(self) -> int:
        return sum(each.size for each in self.partitions.values())

    @property
    def assign(self) -> str:
        """As the data source's options have it."""
        return json.dumps({self.topic: sorted(self.partitions)})

    @property
    def starting_offsets(self) -> str:
        return json.dumps({self.topic: {str(number): each.start for number, each in sorted(self.partitions.items())}})

    @property
    def ending_offsets(self) -> str:
        return json.dumps({self.topic: {str(number): each.end for number, each in sorted(self.partitions.items())}})

    def __str__(self) -> str:
        return ", ".join(
            f"{self.topic}-{number} {each.start} to {each.end - 1}"
            for number, each in sorted(self.partitions.items())
            if each.size
        )


def given_offsets(topic: str, given: OffsetRanges) -> TopicRange:
    """Ranges that were written down: `{0: (5, 90)}`, or with partitions as text, as JSON has them."""
    partitions: dict[int, OffsetRange] = {}
    for name, bounds in given.items():
        if not str(name).isdecimal() or len(bounds) != 2:
            raise RangeError(
                f"{name!r}: {bounds!r} is no range; give partitions with two offsets, such as {{0: (5, 90)}}"
            )
        partitions[int(name)] = OffsetRange(int(bounds[0]), int(bounds[1]))
    if not partitions:
        raise RangeError(f"no partition is given: a range is {EXAMPLE}")
    return TopicRange(topic, partitions)


def moment_ms(given: Moment) -> int:
    """Milliseconds since 1970; a time without a zone is UTC."""
    if isinstance(given, str):
        try:
            moment = datetime.fromisoformat(given)
        except ValueError:
            raise RangeError(f"{given!r} is no time: a range is {EXAMPLE}") from None
    else:
        moment = given
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    # Up, so that a record of the same millisecond but before the moment is not part of what follows it.
    return -((datetime(1970, 1, 1, tzinfo=UTC) - aware) // timedelta(milliseconds=1))


def check_there(
    wanted: TopicRange, beginnings: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    """Raise for what was removed, or was never there: a replay must not pass over a part of its input."""
    for number, each in wanted.partitions.items():
        partition = TopicPartition(wanted.topic, number)
        if partition not in ends:
            raise RangeError(f"there is no partition {partition} to replay")
        if each.size and each.start < beginnings[partition]:
            raise RangeError(
                f"{partition} begins at offset {beginnings[partition]}: what was before it has been removed, "
                f"so {each.start} cannot be replayed"
            )
        if each.end > ends[partition]:
            raise RangeError(f"{partition} ends at offset {ends[partition]}, so there is no {each.end - 1} to replay")
