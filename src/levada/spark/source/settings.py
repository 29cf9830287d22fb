"""The options of a read, with the names and the meaning that they have in Spark's Kafka source."""

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql.datasource import CaseInsensitiveDict

from levada.client.errors import ConfigurationError
from levada.client.options import consumer_options
from levada.client.types import TopicPartition
from levada.spark.options import OptionError, client_settings, flag, option_ms, refuse_unknown, whole_number
from levada.spark.source.bounds import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtPlace,
    AtTime,
    Bound,
    parse_partitions,
    parse_place_or_offsets,
    parse_times,
)
from levada.spark.source.patterns import PatternRefused, compiled

logger = logging.getLogger("levada.spark")

REFUSED = {
    "key.deserializer": "keys are read as bytes; use functions of Spark to decode them",
    "value.deserializer": "values are read as bytes; use functions of Spark to decode them",
    "auto.offset.reset": "use option 'startingOffsets'",
    "enable.auto.commit": "the query commits what it has processed to its group by itself",
    "interceptor.classes": "records go to Spark as they are; use functions of Spark to change them",
}

SELECTIONS = ("subscribe", "subscribePattern", "assign")
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
BATCH_ONLY = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
KNOWN = (
    *SELECTIONS,
    *STREAM_ONLY,
    *BATCH_ONLY,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "includeHeaders",
    "groupIdPrefix",
    "commitOffsets",
    "kafkaConsumer.pollTimeoutMs",
)

CLIENT_DEFAULTS = {
    "isolation.level": "read_committed",
    # A broker that is away for a minute is waited for.
    "default.api.timeout.ms": "120000",
}
DEFAULT_POLL_TIMEOUT_MS = 120_000
DEFAULT_TRIGGER_DELAY_MS = 15 * 60_000
DEFAULT_GROUP_PREFIX = "levada-spark"


@dataclass(frozen=True, slots=True)
class Names:
    """Topics by their names."""

    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class Pattern:
    """All topics whose whole name matches, now or later."""

    pattern: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Single partitions."""

    partitions: frozenset[TopicPartition]


Selection: TypeAlias = Names | Pattern | Partitions


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What batch and stream have in common."""

    selection: Selection
    client: Mapping[str, str]
    """Our consumer's settings, by Kafka's names."""
    start: Bound
    starts_late_at_end: bool
    """Whether a starting time that is behind all records stands for the end; it is an error otherwise."""
    min_partitions: int | None
    max_records_per_partition: int | None
    fails_on_data_loss: bool
    includes_headers: bool
    poll_timeout_ms: int

    @property
    def divides(self) -> bool:
        """Whether an option says how many tasks there should be, or how many records each should have."""
        return self.min_partitions is not None or self.max_records_per_partition is not None

    @property
    def is_committed_only(self) -> bool:
        return self.client["isolation.level"] == "read_committed"


@dataclass(frozen=True, slots=True)
class BatchSettings:
    read: ReadSettings
    end: Bound


@dataclass(frozen=True, slots=True)
class StreamSettings:
    read: ReadSettings
    group_id: str | None
    """None where one is to be made up."""
    group_id_prefix: str
    commits_offsets: bool
    max_offsets: int | None
    min_offsets: int | None
    max_trigger_delay_ms: int


def batch_settings(options: Mapping[str, str]) -> BatchSettings:
    given = CaseInsensitiveDict(dict(options))
    for name in STREAM_ONLY:
        if name in given:
            logger.warning("option %r has no effect: a batch read reads all at once", name)
    start = _bound(given, "starting", EARLIEST)
    end = _bound(given, "ending", LATEST)
    _refuse_place(start, LATEST, "startingOffsets", "latest", "begin")
    _refuse_place(end, EARLIEST, "endingOffsets", "earliest", "end")
    return BatchSettings(_read_settings(given, start), end)


def stream_settings(options: Mapping[str, str]) -> StreamSettings:
    given = CaseInsensitiveDict(dict(options))
    for name in BATCH_ONLY:
        if name in given:
            raise OptionError(f"option {name!r} is for batch reads: a stream has no end; leave it out")
    read = _read_settings(given, _bound(given, "starting", LATEST))
    max_offsets = whole_number(given, "maxOffsetsPerTrigger", at_least=1)
    min_offsets = whole_number(given, "minOffsetsPerTrigger", at_least=1)
    if max_offsets is not None and min_offsets is not None and min_offsets > max_offsets:
        raise OptionError(
            f"option 'minOffsetsPerTrigger' ({min_offsets}) must be at most 'maxOffsetsPerTrigger' ({max_offsets})"
        )
    return StreamSettings(
        read=read,
        group_id=read.client.get("group.id"),
        group_id_prefix=given.get("groupIdPrefix", DEFAULT_GROUP_PREFIX),
        commits_offsets=flag(given, "commitOffsets", True),
        max_offsets=max_offsets,
        min_offsets=min_offsets,
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", DEFAULT_TRIGGER_DELAY_MS),
    )


def includes_headers(options: Mapping[str, str]) -> bool:
    return flag(CaseInsensitiveDict(dict(options)), "includeHeaders", False)


def _read_settings(given: Mapping[str, str], start: Bound) -> ReadSettings:
    refuse_unknown(given, KNOWN)
    client = CLIENT_DEFAULTS | client_settings(given, REFUSED)
    try:
        consumer_options(None, {**client})
    except ConfigurationError as error:
        raise OptionError(f"option 'kafka.*' cannot be used: {error}") from None
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise OptionError(f"option 'startingOffsetsByTimestampStrategy' must be error or latest, not {strategy!r}")
    return ReadSettings(
        selection=_selection(given),
        client=client,
        start=start,
        starts_late_at_end=strategy == "latest",
        min_partitions=whole_number(given, "minPartitions", at_least=1),
        max_records_per_partition=whole_number(given, "maxRecordsPerPartition", at_least=1),
        fails_on_data_loss=flag(given, "failOnDataLoss", True),
        includes_headers=flag(given, "includeHeaders", False),
        poll_timeout_ms=whole_number(given, "kafkaConsumer.pollTimeoutMs", at_least=1) or DEFAULT_POLL_TIMEOUT_MS,
    )


def _selection(given: Mapping[str, str]) -> Selection:
    chosen = [name for name in SELECTIONS if name in given]
    if len(chosen) != 1:
        said = " and ".join(repr(name) for name in chosen) or "none of them"
        raise OptionError(f"exactly one of 'subscribe', 'subscribePattern' and 'assign' says what to read, not {said}")
    return SELECTORS[chosen[0]](given[chosen[0]])


def _names(text: str) -> Selection:
    names = frozenset(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise OptionError("option 'subscribe' names no topic: give one or more, with commas between them")
    return Names(names)


def _pattern(text: str) -> Selection:
    if not text.strip():
        raise OptionError("option 'subscribePattern' is empty: give a regular expression, such as orders-.*")
    try:
        return Pattern(compiled(text.strip()))
    except PatternRefused as error:
        raise OptionError(str(error)) from None


def _partitions(text: str) -> Selection:
    return Partitions(parse_partitions("assign", text))


SELECTORS: dict[str, Callable[[str], Selection]] = {
    "subscribe": _names,
    "subscribePattern": _pattern,
    "assign": _partitions,
}


def _bound(given: Mapping[str, str], prefix: str, default: int) -> Bound:
    """A time for all partitions wins over times of each, and those over offsets, as in Spark."""
    by_partition = f"{prefix}OffsetsByTimestamp"
    by_offset = f"{prefix}Offsets"
    time_ms = whole_number(given, f"{prefix}Timestamp", at_least=0)
    if time_ms is not None:
        return AtTime(time_ms)
    if by_partition in given:
        return parse_times(by_partition, given[by_partition])
    if by_offset in given:
        return parse_place_or_offsets(by_offset, given[by_offset])
    return AtPlace(default)


def _refuse_place(bound: Bound, place: int, option: str, word: str, verb: str) -> None:
    everywhere = isinstance(bound, AtPlace) and bound.place == place
    somewhere = isinstance(bound, AtOffsets) and place in bound.offsets.values()
    if everywhere or somewhere:
        raise OptionError(
            f"option {option!r}: a batch read cannot {verb} at {word!r} ({place} in JSON); nothing is there"
        )


def _duration_ms(given: Mapping[str, str], name: str, default: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    found = option_ms(text)
    if found is None:
        raise OptionError(f"option {name!r} must be a duration such as 30s or 15m, not {text!r}")
    return found
