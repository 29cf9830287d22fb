"""The header that each hop stamps on what it writes: which records it came from, as compact JSON."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

TRACE_HEADER = "levada-trace"
"""One for each hop. The hops before a source come before the hop that read it, source by source: so the whole way
stays readable when retention has removed the records in between."""

RETRACTS_HEADER = "levada-retracts"
RUN_HEADER = "levada-run"

Headers = Sequence[tuple[str, bytes | None]]


class Coordinates(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"

    @classmethod
    def parse(cls, text: str) -> "Coordinates":
        topic, partition, offset = text.rsplit("-", 2)
        return cls(topic, int(partition), int(offset))


@dataclass(frozen=True, slots=True)
class SourceRange:
    """The records of one partition that something was made from: one of them, or those that an aggregation took."""

    topic: str
    partition: int
    first: int
    last: int
    count: int = 1
    offsets: tuple[int, ...] = ()
    """Those that are known one by one: all, or the latest of many."""
    since_ms: int | None = None
    until_ms: int | None = None
    hops: int = 0
    """How many of the headers before the hop's own tell the way of this source."""

    @property
    def unlisted(self) -> int:
        """How many more there are than are known one by one."""
        return self.count - len(self.offsets)


@dataclass(frozen=True, slots=True)
class Hop:
    """One stamp."""

    name: str
    at_ms: int
    sources: tuple[SourceRange, ...]
    run: str | None = None


def encode(hop: Hop) -> bytes:
    """The header's value, as `trace` writes it."""
    run = {} if hop.run is None else {"run": hop.run}
    fields = {"hop": hop.name, "at": hop.at_ms, **run, "from": [_fields_of(source) for source in hop.sources]}
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def decode(value: bytes) -> Hop:
    """Raises ValueError for what is not such a stamp."""
    try:
        fields = json.loads(value)
        sources = tuple(_source(each) for each in fields["from"])
        return Hop(fields["hop"], fields["at"], sources, fields.get("run"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"a {TRACE_HEADER} header that no hop wrote: {value[:100]!r}") from error


def hops_of(headers: Iterable[tuple[str, bytes | None]]) -> list[Hop]:
    """The stamps of a record, oldest first; what others wrote under the header's name is passed over."""
    found = []
    for name, value in headers:
        if name != TRACE_HEADER or value is None:
            continue
        try:
            found.append(decode(value))
        except ValueError:
            continue
    return found


def ways(hops: Sequence[Hop]) -> list[tuple[SourceRange, Sequence[Hop]]]:
    """What the last hop read, each source with the stamps of the way before it."""
    if not hops:
        return []
    found = []
    at = 0
    for source in hops[-1].sources:
        found.append((source, hops[at : at + source.hops]))
        at += source.hops
    return found


def _fields_of(source: SourceRange) -> dict[str, object]:
    if source.count == 1:
        fields: dict[str, object] = {"topic": source.topic, "partition": source.partition, "offset": source.first}
        fields |= {"timestamp": source.since_ms, "hops": source.hops or None}
    else:
        fields = {"topic": source.topic, "partition": source.partition, "first": source.first, "last": source.last}
        fields |= {"count": source.count, "offsets": list(source.offsets)}
        fields |= {"since": source.since_ms, "until": source.until_ms, "hops": source.hops or None}
    return {name: value for name, value in fields.items() if value is not None}


def _source(fields: dict[str, object]) -> SourceRange:
    def number(name: str, default: int) -> int:
        return int(str(fields.get(name, default)))

    def moment(name: str) -> int | None:
        return None if fields.get(name) is None else number(name, 0)

    topic, partition, hops = str(fields["topic"]), int(str(fields["partition"])), number("hops", 0)
    if "offset" in fields:
        offset, at_ms = number("offset", 0), moment("timestamp")
        return SourceRange(topic, partition, offset, offset, 1, (offset,), at_ms, at_ms, hops)
    first, last = int(str(fields["first"])), int(str(fields["last"]))
    listed = fields.get("offsets", [])
    assert isinstance(listed, list)
    offsets = tuple(int(offset) for offset in listed)
    return SourceRange(
        topic, partition, first, last, number("count", 1), offsets, moment("since"), moment("until"), hops
    )
