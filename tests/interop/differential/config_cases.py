"""Cases that describe configurations and change them, of topics, of the broker and of all brokers."""

from collections.abc import Mapping, Sequence

from levada.protocol.api import ApiKey
from levada.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.incremental_alter_configs import AlterableConfig as Alteration
from levada.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from levada.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.interop.differential.cases import EVERY, Case, Table, each, since
from tests.interop.differential.requests import BROKER, TOPIC, describe

LOGGER, METRICS, GROUP = 8, 16, 32
THIS = "1"
ALL_BROKERS = ""

SET, DELETE, APPEND, SUBTRACT = range(4)
Op = tuple[str, int, str | None]


def described(what: str, kind: int, name: str, *keys: str) -> Case:
    return Case(f"{what}: described", lambda _: describe(kind, name, *keys), api=ApiKey.DESCRIBE_CONFIGS, versions=[4])


def _of_resources(*resources: tuple[int, str, list[str] | None]) -> DescribeConfigsRequest:
    wanted = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
        for kind, name, keys in resources
    ]
    return DescribeConfigsRequest(resources=wanted, include_synonyms=True)


_REFUSED_RESOURCES = {
    "unknown topic": (TOPIC, "conf-never"),
    "illegal topic": (TOPIC, "conf/never"),
    "topic without a name": (TOPIC, ""),
    "another broker": (BROKER, "7"),
    "broker that is no number": (BROKER, "one"),
    "negative broker": (BROKER, "-1"),
    "logger of another broker": (LOGGER, "7"),
    "loggers without a broker": (LOGGER, ""),
    "kind 0": (0, "conf-plain"),
    "kind 1": (1, "conf-plain"),
    "kind 99": (99, "conf-plain"),
}

DESCRIBE_CONFIGS = Table(
    "DescribeConfigs",
    ApiKey.DESCRIBE_CONFIGS,
    [
        Case("topic", lambda _: describe(TOPIC, "conf-plain"), versions=EVERY),
        Case("topic with its own", lambda _: describe(TOPIC, "conf-own"), versions=EVERY),
        Case("topic without synonyms", lambda _: describe(TOPIC, "conf-own", with_synonyms=False)),
        Case("documented topic", lambda _: describe(TOPIC, "conf-own", with_documentation=True), versions=since(3)),
        Case("keys of a topic", lambda _: describe(TOPIC, "conf-own", "retention.ms", "segment.bytes")),
        Case("unknown key of a topic", lambda _: describe(TOPIC, "conf-own", "no.such.key")),
        Case("known and unknown key", lambda _: describe(TOPIC, "conf-own", "no.such.key", "retention.ms")),
        Case("key of a broker from a topic", lambda _: describe(TOPIC, "conf-own", "log.retention.ms")),
        Case("a key twice", lambda _: describe(TOPIC, "conf-own", "retention.ms", "retention.ms")),
        Case("empty list of keys", lambda _: _of_resources((TOPIC, "conf-own", []))),
        Case("nothing", lambda _: _of_resources()),
        Case("a topic twice", lambda _: _of_resources(*[(TOPIC, "conf-own", ["retention.ms"])] * 2)),
        Case(
            "known and unknown topic",
            lambda _: _of_resources((TOPIC, "conf-own", ["retention.ms"]), (TOPIC, "conf-never", None)),
        ),
        *each(_REFUSED_RESOURCES, lambda _, resource: describe(*resource)),
        Case("broker", lambda _: describe(BROKER, THIS), versions=EVERY),
        Case("broker without synonyms", lambda _: describe(BROKER, THIS, with_synonyms=False)),
        Case("keys of a broker", lambda _: describe(BROKER, THIS, "log.segment.bytes", "num.partitions")),
        Case("unknown key of a broker", lambda _: describe(BROKER, THIS, "no.such.key")),
        Case("empty list of a broker's keys", lambda _: _of_resources((BROKER, THIS, []))),
        Case("all brokers", lambda _: describe(BROKER, ALL_BROKERS), versions=EVERY),
        Case("a key of all brokers", lambda _: describe(BROKER, ALL_BROKERS, "num.partitions")),
    ],
    topics={
        "conf-plain": {},
        "conf-own": {"retention.ms": "100000000", "cleanup.policy": "compact,delete", "min.insync.replicas": "1"},
    },
)


def replace(
    kind: int, name: str, configs: Mapping[str, str | None] | Sequence[tuple[str, str | None]], **flags: bool
) -> AlterConfigsRequest:
    pairs = configs.items() if isinstance(configs, Mapping) else configs
    given = [AlterableConfig(name=key, value=value) for key, value in pairs]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=given)
    times = 2 if flags.get("twice") else 1
    return AlterConfigsRequest(resources=[resource] * times, validate_only=flags.get("validate_only", False))


ALTER_CONFIGS = Table(
    "AlterConfigs",
    ApiKey.ALTER_CONFIGS,
    [
        Case("set", lambda _: replace(TOPIC, "full-a", {"retention.ms": "5000000", "flush.ms": "7"}), versions=EVERY),
        described("set", TOPIC, "full-a", "retention.ms", "flush.ms"),
        Case("replace", lambda _: replace(TOPIC, "full-a", {"segment.ms": "900000"})),
        described("replace", TOPIC, "full-a", "retention.ms", "flush.ms", "segment.ms"),
        Case("validated only", lambda _: replace(TOPIC, "full-a", {"flush.ms": "8"}, validate_only=True)),
        described("validated only", TOPIC, "full-a", "flush.ms", "segment.ms"),
        Case("unknown key", lambda _: replace(TOPIC, "full-a", {"no.such.key": "1"})),
        Case("bad value", lambda _: replace(TOPIC, "full-a", {"retention.ms": "soon"})),
        Case("bad value, validated only", lambda _: replace(TOPIC, "full-a", {"flush.ms": "x"}, validate_only=True)),
        Case("null", lambda _: replace(TOPIC, "full-a", {"retention.ms": None})),
        Case("two nulls", lambda _: replace(TOPIC, "full-a", {"retention.ms": None, "flush.ms": None})),
        Case("a key twice", lambda _: replace(TOPIC, "full-a", [("flush.ms", "1"), ("flush.ms", "2")])),
        Case("a topic twice", lambda _: replace(TOPIC, "full-a", {"flush.ms": "1"}, twice=True), versions=[2]),
        Case("nothing set", lambda _: replace(TOPIC, "full-a", {})),
        described("nothing set", TOPIC, "full-a", "flush.ms", "segment.ms"),
        *each(_REFUSED_RESOURCES, lambda _, resource: replace(resource[0], resource[1], {"flush.ms": "1"})),
        Case("read-only key", lambda _: replace(BROKER, THIS, {"node.id": "2"})),
        Case("dynamic key", lambda _: replace(BROKER, THIS, {"log.cleaner.backoff.ms": "16000"})),
        described("dynamic key", BROKER, THIS, "log.cleaner.backoff.ms"),
        Case("nothing for the broker", lambda _: replace(BROKER, THIS, {})),
        described("nothing for the broker", BROKER, THIS, "log.cleaner.backoff.ms"),
    ],
    topics={"full-a": {}},
)


def change(kind: int, name: str, *operations: Op, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return change_all((kind, name, operations), validate_only=validate_only)


def change_all(
    *resources: tuple[int, str, Sequence[Op]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    wanted = [
        IncrementalResource(
            resource_type=kind,
            resource_name=name,
            configs=[Alteration(name=key, config_operation=operation, value=value) for key, operation, value in given],
        )
        for kind, name, given in resources
    ]
    return IncrementalAlterConfigsRequest(resources=wanted, validate_only=validate_only)


_POLICY, _RETENTION = "cleanup.policy", "retention.ms"
_KEPT: Op = (_RETENTION, SET, "6000000")

_TOPIC_CHANGES: dict[str, list[Op]] = {
    "set": [(_RETENTION, SET, "5000000"), ("flush.ms", SET, "7")],
    "set again": [(_RETENTION, SET, "5000000")],
    "delete": [("flush.ms", DELETE, None)],
    "delete with a value": [(_RETENTION, DELETE, "1")],
    "delete what is not set": [("flush.ms", DELETE, None)],
    "delete an unknown key": [("no.such.key", DELETE, None)],
    "append": [(_POLICY, APPEND, "compact")],
    "append once more": [(_POLICY, APPEND, "compact")],
    "append two": [(_POLICY, APPEND, "compact,delete")],
    "subtract": [(_POLICY, SUBTRACT, "delete")],
    "subtract what is not there": [(_POLICY, SUBTRACT, "delete")],
    "subtract the last": [(_POLICY, SUBTRACT, "compact")],
    "append a bad member": [(_POLICY, APPEND, "archive")],
    "append with blanks": [(_POLICY, APPEND, " compact , delete ")],
    "delete the list": [(_POLICY, DELETE, None)],
    "append to a number": [("flush.ms", APPEND, "1")],
    "subtract from a number": [("flush.ms", SUBTRACT, "1")],
    "append to an unknown key": [("no.such.key", APPEND, "1")],
    "append null": [(_POLICY, APPEND, None)],
    "set null": [("flush.ms", SET, None)],
    "set two nulls": [("flush.ms", SET, None), (_POLICY, SUBTRACT, None)],
    "set an unknown key": [("no.such.key", SET, "1")],
    "set a bad value": [("flush.ms", SET, "soon")],
    "set beyond the range": [("flush.ms", SET, "-1")],
    "set an empty list": [(_POLICY, SET, "")],
    "set a list with blanks": [(_POLICY, SET, " delete , compact ")],
    "set a list with a gap": [(_POLICY, SET, "delete,,compact")],
    "unknown operation": [("flush.ms", 9, "1")],
    "negative operation": [("flush.ms", -1, "1")],
    "a key twice": [("flush.ms", SET, "1"), ("flush.ms", SET, "2")],
    "a key set and deleted": [("flush.ms", SET, "1"), ("flush.ms", DELETE, None)],
    "good and bad": [("flush.ms", SET, "1"), ("no.such.key", SET, "2")],
    "crossed lags": [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
    "throttled": [("leader.replication.throttled.replicas", SET, "0:1")],
    "throttled more": [("leader.replication.throttled.replicas", APPEND, "1:1")],
    "throttled all": [("leader.replication.throttled.replicas", SET, "*")],
    "throttled wrongly": [("leader.replication.throttled.replicas", APPEND, "all")],
    "remote storage": [("remote.storage.enable", SET, "true")],
    "nothing": [],
}


def _changed(what: str, kind: int, name: str, operations: Sequence[Op]) -> list[Case]:
    """The change, and what it came to."""
    keys = sorted({key for key, _, _ in operations})
    changing = Case(what, lambda _: change(kind, name, *operations))
    return [changing, described(what, kind, name, *keys)] if keys else [changing]


TOPIC_CHANGES = Table(
    "IncrementalAlterConfigs of topics",
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    [
        *(case for what, given in _TOPIC_CHANGES.items() for case in _changed(what, TOPIC, "part-a", given)),
        Case("validated only", lambda _: change(TOPIC, "part-a", ("flush.ms", SET, "99"), validate_only=True)),
        described("validated only", TOPIC, "part-a", "flush.ms"),
        Case("bad, validated only", lambda _: change(TOPIC, "part-a", ("flush.ms", SET, "x"), validate_only=True)),
        *each(_REFUSED_RESOURCES, lambda _, resource: change(*resource, ("flush.ms", SET, "1"))),
        Case("a topic twice", lambda _: change_all((TOPIC, "part-a", [_KEPT]), (TOPIC, "part-a", [_KEPT]))),
        Case("two topics", lambda _: change_all((TOPIC, "part-a", [_KEPT]), (TOPIC, "part-b", [_KEPT]))),
        Case("good and unknown topic", lambda _: change_all((TOPIC, "part-a", [_KEPT]), (TOPIC, "part-n", [_KEPT]))),
        Case("no resources", lambda _: change_all()),
        Case("topic at the end", lambda _: describe(TOPIC, "part-a"), api=ApiKey.DESCRIBE_CONFIGS, versions=[4]),
    ],
    topics={"part-a": {}, "part-b": {}},
)

_BACKOFF = "log.cleaner.backoff.ms"
_CLEANERS = "log.cleaner.threads"
_CLEANER_MEMORY = "log.cleaner.dedupe.buffer.size"
_BROKER_CHANGES: dict[str, tuple[str, list[Op]]] = {
    "set": (THIS, [(_BACKOFF, SET, "16000")]),
    "set for all": (ALL_BROKERS, [(_BACKOFF, SET, "17000")]),
    "delete": (THIS, [(_BACKOFF, DELETE, None)]),
    "delete for all": (ALL_BROKERS, [(_BACKOFF, DELETE, None)]),
    "delete what is not set": (THIS, [(_BACKOFF, DELETE, None)]),
    "bad value": (THIS, [(_BACKOFF, SET, "soon")]),
    "beyond the range": (THIS, [(_BACKOFF, SET, "-1")]),
    "bad value for all": (ALL_BROKERS, [(_BACKOFF, SET, "soon")]),
    "read-only": (THIS, [("node.id", SET, "2")]),
    "read-only for all": (ALL_BROKERS, [("log.dirs", SET, "/tmp/elsewhere")]),
    "two read-only": (THIS, [("node.id", SET, "2"), ("log.dirs", SET, "/tmp/elsewhere")]),
    "delete read-only": (THIS, [("node.id", DELETE, None)]),
    "unknown key": (THIS, [("no.such.key", SET, "1")]),
    "delete the unknown key": (THIS, [("no.such.key", DELETE, None)]),
    "unknown key for all": (ALL_BROKERS, [("no.such.key", SET, "1")]),
    "delete the unknown key for all": (ALL_BROKERS, [("no.such.key", DELETE, None)]),
    "per-broker key for all": (ALL_BROKERS, [("ssl.keystore.location", SET, "/tmp/keys")]),
    "per-listener key": (THIS, [("ssl.keystore.location", SET, "/tmp/keys")]),
    "listeners for all": (ALL_BROKERS, [("listeners", SET, "PLAINTEXT://localhost:1")]),
    "null": (THIS, [(_BACKOFF, SET, None)]),
    "append": (THIS, [("log.cleanup.policy", APPEND, "compact")]),
    "append once more": (THIS, [("log.cleanup.policy", APPEND, "compact")]),
    "subtract": (THIS, [("log.cleanup.policy", SUBTRACT, "delete")]),
    "delete the list": (THIS, [("log.cleanup.policy", DELETE, None)]),
    "append to a number": (THIS, [(_BACKOFF, APPEND, "1")]),
    "append to an unknown key": (THIS, [("no.such.key", APPEND, "1")]),
    "a key twice": (THIS, [(_BACKOFF, SET, "1"), (_BACKOFF, SET, "2")]),
    "unknown operation": (THIS, [(_BACKOFF, 9, "1")]),
    "topic defaults": (ALL_BROKERS, [("log.retention.ms", SET, "90000000"), ("message.max.bytes", SET, "900000")]),
    "topic defaults, here": (THIS, [("log.retention.ms", SET, "91000000")]),
    "retention in hours": (THIS, [("log.retention.hours", SET, "5")]),
    "half of the threads": (THIS, [("num.io.threads", SET, "4")]),
    "too few threads": (THIS, [("num.io.threads", SET, "1")]),
    "no threads": (THIS, [("num.io.threads", SET, "0")]),
    "too many threads": (THIS, [("num.network.threads", SET, "99")]),
    "cleaners for all": (ALL_BROKERS, [(_CLEANERS, SET, "2")]),
    "cleaners: more than double": (THIS, [(_CLEANERS, SET, "5")]),
    "cleaners: double": (THIS, [(_CLEANERS, SET, "4")]),
    "cleaners for all, under one's own": (ALL_BROKERS, [(_CLEANERS, SET, "9")]),
    "cleaners: less than half": (THIS, [(_CLEANERS, SET, "1")]),
    "cleaners: half": (THIS, [(_CLEANERS, SET, "2")]),
    "cleaners: back to more than double": (THIS, [(_CLEANERS, DELETE, None)]),
    "cleaners for all, less": (ALL_BROKERS, [(_CLEANERS, SET, "3")]),
    "cleaners: none": (THIS, [(_CLEANERS, SET, "0")]),
    "cleaners: memory of one": (THIS, [(_CLEANER_MEMORY, SET, "2097152")]),
    "cleaners: memory of a little more": (THIS, [(_CLEANER_MEMORY, SET, "2097154")]),
    "cleaners: too many for the memory": (THIS, [(_CLEANERS, SET, "4")]),
    "cleaners: memory below nothing": (THIS, [(_CLEANER_MEMORY, SET, "-1")]),
    "cleaners: a larger buffer": (THIS, [("log.cleaner.io.buffer.size", SET, "1000000")]),
    "cleaners: a buffer below nothing": (THIS, [("log.cleaner.io.buffer.size", SET, "-1")]),
    "cleaners: a rate": (THIS, [("log.cleaner.io.max.bytes.per.second", SET, "1e7")]),
    "cleaners: a rate that is none": (THIS, [("log.cleaner.io.max.bytes.per.second", SET, "fast")]),
    "throttle": (THIS, [("leader.replication.throttled.rate", SET, "1000000")]),
    "in-sync replicas": (THIS, [("min.insync.replicas", SET, "2")]),
    "unclean elections": (ALL_BROKERS, [("unclean.leader.election.enable", SET, "true")]),
    "connections by address": (ALL_BROKERS, [("max.connections.per.ip.overrides", SET, "127.0.0.1:1000")]),
    "connections by a wrong list": (ALL_BROKERS, [("max.connections.per.ip.overrides", SET, "everyone")]),
}

_KEPT_BY_THE_BROKER = sorted({key for _, given in _BROKER_CHANGES.values() for key, _, _ in given} - {"node.id"})
_ALL_DELETED: list[Op] = [(key, DELETE, None) for key in _KEPT_BY_THE_BROKER]

BROKER_CHANGES = Table(
    "IncrementalAlterConfigs of brokers",
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    [
        *(case for what, (name, given) in _BROKER_CHANGES.items() for case in _changed(what, BROKER, name, given)),
        Case("validated only", lambda _: change(BROKER, THIS, (_BACKOFF, SET, "99"), validate_only=True)),
        described("validated only", BROKER, THIS, _BACKOFF),
        described("a topic below", TOPIC, "below"),
        described("all brokers", BROKER, ALL_BROKERS),
        Case("all deleted here", lambda _: change(BROKER, THIS, *_ALL_DELETED)),
        described("all deleted here", BROKER, THIS, *_KEPT_BY_THE_BROKER),
        Case("all deleted", lambda _: change(BROKER, ALL_BROKERS, *_ALL_DELETED)),
        described("all deleted", BROKER, THIS),
        described("all deleted for all", BROKER, ALL_BROKERS),
        described("a topic below nothing", TOPIC, "below"),
    ],
    topics={"below": {}},
)
