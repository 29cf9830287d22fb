"""Cases that create topics, delete them, and give them more partitions."""

from collections.abc import Sequence

from levada.protocol.api import ApiKey
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from levada.protocol.messages.create_topics import CreatableTopic
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.interop.differential.cases import EVERY, UNKNOWN_ID, Case, Side, Table, each, since, until
from tests.interop.differential.requests import LEFT_OPEN, assigned, create, metadata, new_topic

_BAD_NAMES = {
    "empty": "",
    "dot": ".",
    "two dots": "..",
    "250 characters": "m" * 250,
    "slash": "made/badly",
    "space": "made badly",
    "letter beyond ASCII": "mädé",
    "line break": "made\nbadly",
}

_BAD_COUNTS = {
    "no partitions": (0, 1),
    "-2 partitions": (-2, 1),
    "replication factor 0": (1, 0),
    "replication factor -2": (1, -2),
    "replication factor 3": (1, 3),
    "replication factor 3 by partition 0": (0, 3),
    "no partitions, replication factor 0": (0, 0),
    "10001 partitions": (10_001, 1),
    "ten times 10001 partitions": (100_010, 1),
}

_ASSIGNMENTS: dict[str, Sequence[tuple[int, Sequence[int]]]] = {
    "empty list of replicas": [(0, [])],
    "second list of replicas empty": [(0, [1]), (1, [])],
    "unknown broker": [(0, [9])],
    "known and unknown broker": [(0, [1, 9])],
    "negative broker": [(0, [-1])],
    "broker twice": [(0, [1, 1])],
    "unequal lists": [(0, [1]), (1, [1, 2])],
    "index missing": [(0, [1]), (2, [1])],
    "not from 0 on": [(1, [1])],
    "negative index": [(-1, [1])],
    "index twice": [(0, [1]), (0, [1])],
}

_CONFIGS: dict[str, dict[str, str | None]] = {
    "unknown key": {"no.such.key": "1"},
    "two unknown keys": {"no.such.key": "1", "another.one": "1"},
    "unknown key with null": {"no.such.key": None},
    "null": {"retention.ms": None},
    "two nulls": {"retention.ms": None, "cleanup.policy": None},
    "not a number": {"retention.ms": "soon"},
    "empty number": {"retention.ms": ""},
    "number with a plus": {"retention.ms": "+1000"},
    "number out of its range": {"retention.ms": "-2"},
    "number beyond 32 bits": {"max.message.bytes": "2147483648"},
    "number beyond 64 bits": {"retention.ms": "9223372036854775808"},
    "fraction for a number": {"segment.bytes": "1e7"},
    "segment too small": {"segment.bytes": "1048575"},
    "ratio above 1": {"min.cleanable.dirty.ratio": "1.5"},
    "ratio not a number": {"min.cleanable.dirty.ratio": "half"},
    "neither true nor false": {"preallocate": "yes"},
    "unknown word": {"compression.type": "brotli"},
    "word in capitals": {"cleanup.policy": "Compact"},
    "unknown policy": {"cleanup.policy": "delete,archive"},
    "gzip level 0": {"compression.gzip.level": "0"},
    "lz4 level 18": {"compression_lz4_level": "18"},
    "zstd level 23": {"compression.zstd.level": "23"},
    "min.insync.replicas 0": {"min.insync.replicas": "0"},
    "compaction lags crossed": {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    "remote storage": {"remote.storage.enable": "true"},
    "local retention above the whole": {"local.retention.ms": "10", "retention.ms": "5"},
    "throttled replicas": {"leader.replication.throttled.replicas": "0:1,1:x"},
    "timestamp type": {"message.timestamp.type": "append"},
    "key that was removed": {"message.format.version": "2.8"},
}

_TAKEN_CONFIGS: dict[str, dict[str, str | None]] = {
    "number with blanks": {"retention.ms": " 1000 "},
    "policy twice": {"cleanup.policy": "delete,delete"},
    "no policy": {"cleanup.policy": ""},
    "min.insync.replicas above the replicas": {"min.insync.replicas": "5"},
    "internal key": {"internal.segment.bytes": "100"},
}
"""Those that Apache may take, and that are therefore only validated."""


def _fresh(side: Side, name: str, partitions: int = 1, replication_factor: int = 1) -> CreatableTopic:
    return new_topic(f"{name}-v{side.version}", partitions, replication_factor)


CREATE_TOPICS = Table(
    "CreateTopics",
    ApiKey.CREATE_TOPICS,
    [
        Case("counts", lambda side: create(_fresh(side, "made-3", 3)), versions=EVERY),
        Case("default counts", lambda side: create(_fresh(side, "made", -1, -1)), versions=EVERY),
        Case("two at once", lambda side: create(_fresh(side, "made-a"), _fresh(side, "made-b"))),
        Case("nothing", lambda _: create()),
        Case("validated only", lambda side: create(_fresh(side, "made-not", 3), validate_only=True)),
        Case("was not made", lambda _: metadata("made-not-v7"), api=ApiKey.METADATA, versions=[12]),
        Case("existing", lambda _: create(new_topic("made-before"))),
        Case("existing, validated only", lambda _: create(new_topic("made-before"), validate_only=True)),
        Case("existing and bad counts", lambda _: create(new_topic("made-before", 0, 0))),
        Case(
            "10001 partitions in two topics",
            lambda _: create(new_topic("made-a", 10_000), new_topic("made-b", -1), validate_only=True),
        ),
        Case(
            "10001 assignments",
            lambda _: create(assigned("made-a", *((index, [1]) for index in range(10_001))), validate_only=True),
        ),
        Case("249 characters", lambda side: create(new_topic(str(side.version) + "m" * 248))),
        *each(_BAD_NAMES, lambda _, name: create(new_topic(name)), prefix="name: "),
        Case("bad name and bad counts", lambda _: create(new_topic("made/badly", 0, 0))),
        Case("name of the metadata", lambda _: create(new_topic("__cluster_metadata"))),
        Case("name of the metadata twice", lambda _: create(*[new_topic("__cluster_metadata")] * 2)),
        Case("collision with one that is there", lambda _: create(new_topic("made_before.that"))),
        Case("the same name with dots", lambda _: create(new_topic("made.before.that"))),
        Case(
            "collision in one request",
            lambda side: create(_fresh(side, "made.c_d"), _fresh(side, "made_c.d"), _fresh(side, "made_c_d")),
        ),
        Case("twice in one request", lambda side: create(_fresh(side, "made-twice"), _fresh(side, "made-twice"))),
        Case(
            "twice beside another",
            lambda side: create(_fresh(side, "made-x"), _fresh(side, "made-y"), _fresh(side, "made-x")),
        ),
        *each(_BAD_COUNTS, lambda _, counts: create(new_topic("made-badly", *counts), validate_only=counts[0] > 1)),
        Case(
            "assignment",
            lambda side: create(assigned(f"made-assigned-v{side.version}", (1, [1]), (0, [1]))),
        ),
        *each(_ASSIGNMENTS, lambda _, given: create(assigned("made-badly", *given)), prefix="assignment: "),
        Case("assignment and count", lambda _: create(new_topic("made-badly", 1, LEFT_OPEN, assignment=[(0, [1])]))),
        Case("assignment and factor", lambda _: create(new_topic("made-badly", LEFT_OPEN, 1, assignment=[(0, [1])]))),
        Case("assignment and both", lambda _: create(new_topic("made-badly", 1, 1, assignment=[(0, [1])]))),
        Case("assignment and both wrong", lambda _: create(new_topic("made-badly", 7, 7, assignment=[(0, [9])]))),
        Case(
            "configs",
            lambda side: create(
                new_topic(
                    f"made-configured-v{side.version}",
                    configs={
                        "retention.ms": "1000000",
                        "cleanup.policy": "compact,delete",
                        "compression.type": "gzip",
                        "min.cleanable.dirty.ratio": "0.25",
                        "preallocate": "TRUE",
                    },
                )
            ),
            versions=EVERY,
        ),
        Case(
            "config given twice",
            lambda side: create(
                new_topic(f"made-doubled-v{side.version}", configs=[("retention.ms", "1"), ("retention.ms", "2000000")])
            ),
        ),
        *each(_CONFIGS, lambda _, given: create(new_topic("made-badly", configs=given)), prefix="configs: "),
        *each(
            _TAKEN_CONFIGS,
            lambda _, given: create(new_topic("made-badly", configs=given), validate_only=True),
            prefix="configs: ",
        ),
        Case("bad configs and bad counts", lambda _: create(new_topic("made-badly", 0, configs={"no.such.key": "1"}))),
        Case(
            "bad configs and bad assignment",
            lambda _: create(new_topic("made-badly", -1, -1, assignment=[(0, [9])], configs={"no.such.key": "1"})),
        ),
        Case(
            "good and bad in one request",
            lambda side: create(_fresh(side, "made-good"), new_topic("made-badly", 0), new_topic("made/badly")),
        ),
        Case("an internal topic", lambda _: create(new_topic("__share_group_state")), versions=[7]),
        Case(
            "metadata of an internal topic",
            lambda _: metadata("__share_group_state"),
            versions=[12],
            api=ApiKey.METADATA,
        ),
    ],
    topics={"made-before": {}, "made.before_that": {}},
)


def _by_names(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=10_000)


def _states(*states: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    topics = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in states]
    return DeleteTopicsRequest(topics=topics, timeout_ms=10_000)


DELETE_TOPICS = Table(
    "DeleteTopics",
    ApiKey.DELETE_TOPICS,
    [
        Case("by name, old", lambda side: _by_names(f"gone-v{side.version}"), versions=until(5)),
        Case("by two names, old", lambda _: _by_names("gone-a", "gone-b"), versions=[5]),
        Case("unknown name, old", lambda _: _by_names("gone-never"), versions=until(5)),
        Case("unknown name twice, old", lambda _: _by_names("gone-never", "gone-never"), versions=[1, 5]),
        Case("a name twice, old", lambda _: _by_names("gone-c", "gone-c"), versions=[1, 5]),
        Case("a name twice beside another, old", lambda _: _by_names("gone-c", "gone-d", "gone-c"), versions=[5]),
        Case("an illegal name, old", lambda _: _by_names("gone/never"), versions=[5]),
        Case("nothing, old", lambda _: _by_names(), versions=[1, 5]),
        Case("by name", lambda _: _states(("gone-v6", NO_UUID)), versions=since(6)),
        Case("by id", lambda side: _states((None, side.topic_id("gone-e"))), versions=since(6)),
        Case("by id once more", lambda side: _states((None, side.topic_id("gone-e"))), versions=since(6)),
        Case("unknown name", lambda _: _states(("gone-never", NO_UUID)), versions=since(6)),
        Case("unknown id", lambda _: _states((None, UNKNOWN_ID)), versions=since(6)),
        Case("name and id", lambda side: _states(("gone-c", side.topic_id("gone-c"))), versions=since(6)),
        Case("name and another id", lambda side: _states(("gone-c", side.topic_id("gone-f"))), versions=since(6)),
        Case("unknown name and id", lambda _: _states(("gone-never", UNKNOWN_ID)), versions=since(6)),
        Case("neither", lambda _: _states((None, NO_UUID)), versions=since(6)),
        Case("neither, twice", lambda _: _states((None, NO_UUID), (None, NO_UUID)), versions=since(6)),
        Case("a name twice", lambda _: _states(("gone-c", NO_UUID), ("gone-c", NO_UUID)), versions=since(6)),
        Case("unknown name twice", lambda _: _states(*[("gone-never", NO_UUID)] * 2), versions=since(6)),
        Case("an id twice", lambda side: _states(*[(None, side.topic_id("gone-c"))] * 2), versions=since(6)),
        Case("unknown id twice", lambda _: _states(*[(None, UNKNOWN_ID)] * 2), versions=since(6)),
        Case(
            "once by name, once by id",
            lambda side: _states(("gone-f", NO_UUID), (None, side.topic_id("gone-f"))),
            versions=since(6),
        ),
        Case("known and unknown", lambda _: _states(("gone-g", NO_UUID), ("gone-never", NO_UUID)), versions=since(6)),
        Case("nothing", lambda _: _states(), versions=since(6)),
        Case("the metadata", lambda _: _states(("__cluster_metadata", NO_UUID)), versions=since(6)),
        Case(
            "what is left",
            lambda _: metadata(*(f"gone-{one}" for one in "abcdefg")),
            api=ApiKey.METADATA,
            versions=[12],
        ),
    ],
    topics={f"gone-{one}": {} for one in ("v1", "v2", "v3", "v4", "v5", "v6", *"abcdefg")},
)


def _more(
    name: str, count: int, *assignments: Sequence[int], validate_only: bool = False, times: int = 1
) -> CreatePartitionsRequest:
    given = [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignments]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=given or None)
    return CreatePartitionsRequest(topics=[topic] * times, timeout_ms=10_000, validate_only=validate_only)


def _empty_assignments() -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name="more-a", count=3, assignments=[])
    return CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)


CREATE_PARTITIONS = Table(
    "CreatePartitions",
    ApiKey.CREATE_PARTITIONS,
    [
        Case("more", lambda side: _more(f"more-v{side.version}", 5), versions=EVERY),
        Case("validated only", lambda _: _more("more-a", 5, validate_only=True)),
        Case("as many", lambda _: _more("more-a", 2)),
        Case("fewer", lambda _: _more("more-a", 1)),
        Case("none", lambda _: _more("more-a", 0)),
        Case("-1", lambda _: _more("more-a", -1)),
        Case("unknown topic", lambda _: _more("more-never", 5)),
        Case("illegal topic", lambda _: _more("more/never", 5)),
        Case("twice", lambda _: _more("more-a", 5, times=2)),
        Case("unknown topic twice", lambda _: _more("more-never", 5, times=2)),
        Case("nothing", lambda _: _more("more-a", 5, times=0)),
        Case("assigned", lambda side: _more(f"more-assigned-v{side.version}", 4, [1], [1])),
        Case("assigned, validated only", lambda _: _more("more-a", 4, [1], [1], validate_only=True)),
        Case("no assignments", lambda _: _empty_assignments()),
        Case("too few assignments", lambda _: _more("more-a", 5, [1])),
        Case("too many assignments", lambda _: _more("more-a", 3, [1], [1])),
        Case("assigned to no broker", lambda _: _more("more-a", 3, [])),
        Case("assigned to an unknown broker", lambda _: _more("more-a", 3, [9])),
        Case("assigned to a broker twice", lambda _: _more("more-a", 3, [1, 1])),
        Case("assigned to one more replica", lambda _: _more("more-a", 3, [1, 9])),
        Case("assigned, but not more", lambda _: _more("more-a", 2, [1])),
        Case("10001 more", lambda _: _more("more-a", 10_003, validate_only=True)),
        Case("the metadata", lambda _: _more("__cluster_metadata", 5)),
        Case(
            "what came of it",
            lambda _: metadata("more-a", "more-v3", "more-assigned-v3"),
            api=ApiKey.METADATA,
            versions=[12],
        ),
    ],
    topics={f"more-{one}": {} for one in ("v0", "v1", "v2", "v3", "a", "assigned-v0", "assigned-v3")},
)


def _elect(kind: int, *partitions: tuple[str, Sequence[int]]) -> ElectLeadersRequest:
    wanted = [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in partitions]
    return ElectLeadersRequest(election_type=kind, topic_partitions=wanted, timeout_ms=10_000)


def _elect_all(kind: int) -> ElectLeadersRequest:
    return ElectLeadersRequest(election_type=kind, topic_partitions=None, timeout_ms=10_000)


ELECT_LEADERS = Table(
    "ElectLeaders",
    ApiKey.ELECT_LEADERS,
    [
        Case("preferred", lambda _: _elect(0, ("led", [0])), versions=EVERY),
        Case("preferred, both", lambda _: _elect(0, ("led", [0, 1]))),
        Case("preferred, twice", lambda _: _elect(0, ("led", [0, 0]))),
        Case("preferred, unknown partition", lambda _: _elect(0, ("led", [7]))),
        Case("preferred, negative partition", lambda _: _elect(0, ("led", [-1]))),
        Case("preferred, unknown topic", lambda _: _elect(0, ("led-never", [0]))),
        Case("preferred, unknown and known", lambda _: _elect(0, ("led", [0, 7]), ("led-never", [0]))),
        Case("preferred, no partitions", lambda _: _elect(0, ("led", []))),
        Case("preferred, no topics", lambda _: _elect(0)),
        Case("preferred, all", lambda _: _elect_all(0), versions=EVERY),
        Case("unclean", lambda _: _elect(1, ("led", [0])), versions=since(1)),
        Case("unclean, unknown", lambda _: _elect(1, ("led", [7]), ("led-never", [0])), versions=since(1)),
        Case("unclean, all", lambda _: _elect_all(1), versions=since(1)),
        Case("unknown kind", lambda _: _elect(7, ("led", [0])), versions=since(1)),
        Case("unknown kind, unknown topic", lambda _: _elect(7, ("led-never", [0])), versions=since(1)),
        Case("unknown kind, all", lambda _: _elect_all(7), versions=since(1)),
    ],
    topics={"led": {}},
)
