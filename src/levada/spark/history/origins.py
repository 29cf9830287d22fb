"""Answers where a record came from: back through its stamps, hop by hop, to the records without a stamp."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum

from pyspark.sql import SparkSession

from levada import Consumer
from levada.client.types import TopicPartition
from levada.records import ConsumerRecord
from levada.spark.history.hops import Coordinates, Hop, SourceRange, hops_of, ways
from levada.spark.sessions import bootstrap_of

DEFAULT_LIMIT = 1_000
"""Records to read at most, so that the origins of a large aggregate end at some point."""

SKIP_OFFSETS = 2_000
"""Nearer than that it is cheaper to read on than to begin a new fetch."""

POLL_SECONDS = 1.0
PATIENCE_POLLS = 30


class NoSuchRecord(ValueError):
    """Nothing was ever written there."""


class RecordState(Enum):
    """What is known of a record."""

    READ = "read"
    GONE = "gone"
    """Retention, compaction or an aborted transaction removed it; only its place is known."""
    NOT_READ = "not read"
    """Past the limit of the question."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A record and what it was made from. `str()` draws the tree."""

    level: int
    """0 for the record that was asked about, 1 for those it was made from, and so on."""
    hop: str | None
    """The query that wrote it; None if it has no stamp, so that it is a beginning."""
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    state: RecordState = RecordState.READ
    run: str | None = None
    unlisted: int = 0
    """How many more records an aggregation took whose offsets it did not keep."""
    sources: tuple["Origin", ...] = field(default=(), repr=False)

    @property
    def coordinates(self) -> Coordinates:
        return Coordinates(self.topic, self.partition, self.offset)

    def walk(self) -> Iterator["Origin"]:
        """This one and everything behind it, each with its level."""
        yield self
        for source in self.sources:
            yield from source.walk()

    @property
    def beginnings(self) -> list["Origin"]:
        """The first records of the way, each once."""
        ends = {each.coordinates: each for each in self.walk() if not each.sources}
        return [ends[place] for place in sorted(ends)]

    def __str__(self) -> str:
        return "\n".join(_drawn(self))


def origins(
    topic: str,
    partition: int,
    offset: int,
    *,
    spark: SparkSession | None = None,
    bootstrap: str | None = None,
    limit: int = DEFAULT_LIMIT,
) -> Origin:
    """Where a record came from, over as many hops as were traced, and through aggregations.

    >>> print(origins("totals", 0, 3))
    totals-0-3 key=ann by totals at 2026-11-15T20:00:01.500Z
      points-0-7 key=ann by points at 2026-11-15T20:00:00.900Z
        orders-1-4 key=17 at 2026-11-15T20:00:00.100Z

    What retention has removed is shown as gone, and its own way with it, if a later record still tells it. No more than
    `limit` records are read.
    """
    session = spark or SparkSession.getActiveSession()
    servers = bootstrap or (bootstrap_of(session) if session else None)
    if servers is None:
        raise ValueError("name a broker: origins(..., bootstrap='localhost:9092')")
    wanted = Coordinates(topic, partition, offset)
    with Consumer(servers, isolation_level="read_committed", auto_offset_reset="none") as consumer:
        reader = RecordReader(consumer, limit)
        reader.require(wanted)
        reader.read_all(wanted)
    return _tree(reader, wanted, 0, None, None)


class RecordReader:
    """Reads records by their coordinates, a level of the tree at a time, each once."""

    def __init__(self, consumer: Consumer, limit: int) -> None:
        self._consumer = consumer
        self._left = limit
        self._partitions = {
            TopicPartition(topic, each.index)
            for topic, partitions in consumer.list_topics().items()
            for each in partitions
        }
        self._found: dict[Coordinates, ConsumerRecord | None] = {}

    def require(self, place: Coordinates) -> None:
        partition = TopicPartition(place.topic, place.partition)
        if partition not in self._partitions:
            raise NoSuchRecord(f"there is no partition {partition}: look at the topic's name and its partitions")
        end = self._consumer.end_offsets([partition])[partition]
        if not 0 <= place.offset < end:
            raise NoSuchRecord(f"{partition} has no offset {place.offset}: it ends at {end}")

    def read_all(self, first: Coordinates) -> None:
        level: Sequence[Coordinates] = [first]
        while level:
            self._read(level[: self._left])
            self._left -= len(level)
            if self._left <= 0:
                return
            following = (source for place in level for source in places_of(self.hops(place)))
            level = sorted({place for place in following if place not in self._found})

    def hops(self, place: Coordinates) -> Sequence[Hop]:
        record = self._found.get(place)
        return () if record is None else hops_of(record.headers)

    def state(self, place: Coordinates) -> RecordState:
        if place not in self._found:
            return RecordState.NOT_READ
        return RecordState.GONE if self._found[place] is None else RecordState.READ

    def record(self, place: Coordinates) -> ConsumerRecord | None:
        return self._found.get(place)

    def _read(self, places: Iterable[Coordinates]) -> None:
        by_partition: defaultdict[TopicPartition, list[int]] = defaultdict(list)
        for place in places:
            self._found[place] = None
            by_partition[TopicPartition(place.topic, place.partition)].append(place.offset)
        for partition, offsets in by_partition.items():
            # A topic may have been removed since: all its records are gone then.
            if partition in self._partitions:
                self._read_partition(partition, sorted(offsets))

    def _read_partition(self, partition: TopicPartition, offsets: list[int]) -> None:
        begin = self._consumer.beginning_offsets([partition])[partition]
        end = self._consumer.end_offsets([partition])[partition]
        wanted = [offset for offset in offsets if begin <= offset < end]
        self._consumer.assign([partition])
        position = -SKIP_OFFSETS
        patience = PATIENCE_POLLS
        while wanted and patience:
            if not position <= wanted[0] < position + SKIP_OFFSETS:
                self._consumer.seek(partition, wanted[0])
            records = {record.offset: record for record in self._consumer.poll(POLL_SECONDS)}
            position = self._consumer.position(partition)
            for offset in [offset for offset in wanted if offset < position]:
                self._found[Coordinates(partition.topic, partition.partition, offset)] = records.get(offset)
            wanted = [offset for offset in wanted if offset >= position]
            patience = PATIENCE_POLLS if records else patience - 1
        if wanted:
            raise TimeoutError(f"{partition} gave no records from offset {wanted[0]} on for {PATIENCE_POLLS} s")


def places_of(hops: Sequence[Hop]) -> list[Coordinates]:
    """Everything that stamps name one by one: the way before a record that is gone is read as well."""
    return [
        Coordinates(source.topic, source.partition, offset)
        for hop in hops
        for source in hop.sources
        for offset in source.offsets
    ]


def _tree(
    reader: RecordReader, place: Coordinates, level: int, told: Sequence[Hop] | None, told_at_ms: int | None
) -> Origin:
    """`told` is the way that the record after it remembers, for when this one is gone."""
    record = reader.record(place)
    hops = list(reader.hops(place) if record is not None else told or ())
    own = hops[-1] if hops else None
    sources: list[Origin] = []
    for source, way in ways(hops):
        sources += [
            _tree(reader, Coordinates(source.topic, source.partition, offset), level + 1, way, _only_moment(source))
            for offset in source.offsets
        ]
    return Origin(
        level=level,
        hop=own.name if own else None,
        topic=place.topic,
        partition=place.partition,
        offset=place.offset,
        timestamp_ms=record.timestamp_ms if record is not None else told_at_ms,
        key=record.key if record is not None else None,
        state=reader.state(place),
        run=own.run if own else None,
        unlisted=sum(source.unlisted for source in own.sources) if own else 0,
        sources=tuple(sources),
    )


def _only_moment(source: SourceRange) -> int | None:
    return source.since_ms if source.count == 1 else None


def _drawn(origin: Origin) -> Iterator[str]:
    indent = "  " * origin.level
    yield indent + " ".join(_words(origin))
    for source in origin.sources:
        yield from _drawn(source)
    if origin.unlisted:
        yield f"{indent}  and {origin.unlisted} more whose offsets were not kept"


def _words(origin: Origin) -> Iterator[str]:
    yield str(origin.coordinates)
    if origin.state is not RecordState.READ:
        yield f"({origin.state.value})"
    if origin.key is not None:
        yield f"key={origin.key.decode(errors='backslashreplace')}"
    if origin.hop is not None:
        yield f"by {origin.hop}"
    if origin.run is not None:
        yield f"in run {origin.run}"
    if origin.timestamp_ms is not None:
        moment = datetime.fromtimestamp(origin.timestamp_ms / 1000, UTC)
        yield f"at {moment.isoformat(timespec='milliseconds').replace('+00:00', 'Z')}"
