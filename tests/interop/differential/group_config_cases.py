"""Cases that describe configurations of groups and change them, and that list what has configurations."""

from collections.abc import Mapping

from levada.protocol.api import ApiKey
from levada.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.interop.differential.cases import EVERY, Case, Table, each, since
from tests.interop.differential.config_cases import (
    APPEND,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    THIS,
    Op,
    change,
    change_all,
    described,
    replace,
)
from tests.interop.differential.requests import BROKER, TOPIC, describe

_SESSION, _HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
_ASSIGNMENT = "consumer.assignment.interval.ms"
_LONGER: Op = (_SESSION, SET, "50000")

_CHANGES: dict[str, list[Op]] = {
    "set": [(_SESSION, SET, "50000"), (_HEARTBEAT, SET, "6000")],
    "set again": [(_SESSION, SET, "50000")],
    "delete": [(_HEARTBEAT, DELETE, None)],
    "delete what is not set": [(_HEARTBEAT, DELETE, None)],
    "delete with a value": [(_SESSION, DELETE, "1")],
    "delete an unknown key": [("no.such.key", DELETE, None)],
    "set an unknown key": [("no.such.key", SET, "1")],
    "set a key of a topic": [("retention.ms", SET, "1")],
    "set a key of the broker": [("group.consumer.session.timeout.ms", SET, "50000")],
    "good and unknown": [_LONGER, ("no.such.key", SET, "1")],
    "unknown and bad": [("no.such.key", SET, "1"), (_SESSION, SET, "soon")],
    "two bad values": [(_SESSION, SET, "soon"), (_HEARTBEAT, SET, "never")],
    "append to a number": [(_SESSION, APPEND, "1")],
    "subtract from a number": [(_SESSION, SUBTRACT, "1")],
    "append to a text": [("share.isolation.level", APPEND, "read_committed")],
    "append to an unknown key": [("no.such.key", APPEND, "1")],
    "append null": [(_SESSION, APPEND, None)],
    "set null": [(_SESSION, SET, None)],
    "set two nulls": [(_SESSION, SET, None), (_HEARTBEAT, SET, None)],
    "a key twice": [_LONGER, (_SESSION, SET, "51000")],
    "a key set and deleted": [_LONGER, (_SESSION, DELETE, None)],
    "nothing": [],
}

_VALUES: dict[str, tuple[str, ...]] = {
    _SESSION: ("soon", "", " 50000 ", "+50000", "50000.0", "2147483648", "0", "-1", "44999", "45000", "60000", "60001"),
    _HEARTBEAT: ("x", "0", "4999", "5000", "15000", "15001"),
    _ASSIGNMENT: ("x", "-1", "0", "15000", "15001"),
    "share.assignment.interval.ms": ("-1", "0", "15000", "15001"),
    "share.auto.offset.reset": (
        "earliest",
        "latest",
        "LATEST",
        "never",
        "",
        " earliest ",
        "by_duration:PT1H",
        "by_duration:P1DT2H3M4.5S",
        "by_duration:",
        "by_duration:P",
        "by_duration:soon",
        "by_duration:-PT1H",
        "by_duration:PT-1H",
        "by_duration",
        "by_duration:pt1h",
        "BY_DURATION:PT1H",
        "by_duration:PT0S",
        "by_duration:P1W",
        "none",
    ),
    "share.delivery.count.limit": ("x", "1", "2", "10", "11"),
    "share.heartbeat.interval.ms": ("0", "4999", "5000", "15000", "15001"),
    "share.isolation.level": ("read_committed", "READ_COMMITTED", "read_uncommitted", "both", ""),
    "share.partition.max.record.locks": ("99", "100", "4000", "4001"),
    "share.record.lock.duration.ms": ("999", "1000", "14999", "15000", "60000", "60001"),
    "share.renew.acknowledge.enable": ("true", "FALSE", "yes", ""),
    "share.session.timeout.ms": ("0", "44999", "45000", "60000", "60001"),
    "streams.assignment.interval.ms": ("-1", "0", "15000", "15001"),
    "streams.heartbeat.interval.ms": ("0", "4999", "5000", "15000", "15001"),
    "streams.initial.rebalance.delay.ms": ("x", "-1", "0", "2147483647"),
    "streams.num.standby.replicas": ("-1", "0", "2", "3"),
    "streams.session.timeout.ms": ("0", "44999", "45000", "60000", "60001"),
}
"""Of every key, what is none of its type, what its range has not, and both sides of what the broker allows."""


def _changed(what: str, group: str, operations: list[Op]) -> list[Case]:
    """The change, and what it came to."""
    keys = sorted({key for key, _, _ in operations})
    changing = Case(what, lambda _: change(GROUP, group, *operations))
    return [changing, described(what, GROUP, group, *keys)] if keys else [changing]


def _each_value(key: str, texts: tuple[str, ...]) -> list[Case]:
    group = f"of {key}"
    return [
        *(case for text in texts for case in _changed(f"{key}={text}", group, [(key, SET, text)])),
        *_changed(f"{key} deleted", group, [(key, DELETE, None)]),
    ]


_ODD_NAMES = {
    "slashes": "a/b",
    "blanks": " g ",
    "a long name": "g" * 1000,
    "a name beyond ASCII": "gr\u00fc\u00dfe",
    "a dot": ".",
}

CHANGES = Table(
    "IncrementalAlterConfigs of groups",
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    [
        *(case for what, given in _CHANGES.items() for case in _changed(what, "part-g", given)),
        *(case for key, texts in _VALUES.items() for case in _each_value(key, texts)),
        Case("validated only", lambda _: change(GROUP, "part-v", _LONGER, validate_only=True)),
        described("validated only", GROUP, "part-v", _SESSION),
        Case("bad, validated only", lambda _: change(GROUP, "part-v", (_SESSION, SET, "x"), validate_only=True)),
        Case("without a name", lambda _: change(GROUP, "", _LONGER)),
        Case("without a name, validated only", lambda _: change(GROUP, "", _LONGER, validate_only=True)),
        Case("nothing without a name", lambda _: change(GROUP, "")),
        Case("bad without a name", lambda _: change(GROUP, "", (_SESSION, SET, "x"))),
        Case("null without a name", lambda _: change(GROUP, "", (_SESSION, SET, None))),
        *each(_ODD_NAMES, lambda _, name: change(GROUP, name, _LONGER)),
        *(described(what, GROUP, name, _SESSION) for what, name in _ODD_NAMES.items()),
        Case("a group twice", lambda _: change_all((GROUP, "part-g", [_LONGER]), (GROUP, "part-g", [_LONGER]))),
        Case("two groups", lambda _: change_all((GROUP, "part-a", [_LONGER]), (GROUP, "part-b", [_LONGER]))),
        Case(
            "a group and a topic of its name",
            lambda _: change_all((GROUP, "part-t", [_LONGER]), (TOPIC, "part-t", [("flush.ms", SET, "9")])),
        ),
        Case(
            "a group and an unknown topic",
            lambda _: change_all((GROUP, "part-c", [_LONGER]), (TOPIC, "part-n", [("flush.ms", SET, "9")])),
        ),
        Case("group at the end", lambda _: describe(GROUP, "part-g"), api=ApiKey.DESCRIBE_CONFIGS, versions=[4]),
        Case("topic at the end", lambda _: describe(TOPIC, "part-t"), api=ApiKey.DESCRIBE_CONFIGS, versions=[4]),
    ],
    topics={"part-t": {}},
)

_FULL: dict[str, Mapping[str, str | None]] = {
    "set": {_SESSION: "50000", _HEARTBEAT: "6000"},
    "replace": {_SESSION: "51000", "share.auto.offset.reset": "earliest"},
    "unknown key": {"no.such.key": "1"},
    "bad value": {_SESSION: "soon"},
    "beyond the broker's range": {_SESSION: "44999"},
    "null": {_SESSION: None},
    "two nulls": {_SESSION: None, _HEARTBEAT: None},
    "nothing": {},
}


def _replaced(what: str, configs: Mapping[str, str | None]) -> list[Case]:
    return [Case(what, lambda _: replace(GROUP, "full-g", configs)), described(what, GROUP, "full-g")]


REPLACEMENTS = Table(
    "AlterConfigs of groups",
    ApiKey.ALTER_CONFIGS,
    [
        *(case for what, given in _FULL.items() for case in _replaced(what, given)),
        Case("a key twice", lambda _: replace(GROUP, "full-g", [(_SESSION, "50000"), (_SESSION, "51000")])),
        Case("validated only", lambda _: replace(GROUP, "full-g", {_SESSION: "52000"}, validate_only=True)),
        Case("bad, validated only", lambda _: replace(GROUP, "full-g", {_SESSION: "x"}, validate_only=True)),
        described("validated only", GROUP, "full-g", _SESSION),
        Case("without a name", lambda _: replace(GROUP, "", {_SESSION: "50000"})),
        Case("nothing without a name", lambda _: replace(GROUP, "", {})),
    ],
)

DESCRIPTIONS = Table(
    "DescribeConfigs of groups",
    ApiKey.DESCRIBE_CONFIGS,
    [
        Case("an unknown group", lambda _: describe(GROUP, "told-absent"), versions=EVERY),
        Case("set", lambda _: change(GROUP, "told-g", _LONGER), api=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=[1]),
        Case("group with its own", lambda _: describe(GROUP, "told-g"), versions=EVERY),
        Case("group without synonyms", lambda _: describe(GROUP, "told-g", with_synonyms=False)),
        Case("documented group", lambda _: describe(GROUP, "told-g", with_documentation=True), versions=since(3)),
        Case("keys of a group", lambda _: describe(GROUP, "told-g", _SESSION, _HEARTBEAT)),
        Case("unknown key of a group", lambda _: describe(GROUP, "told-g", "no.such.key")),
        Case("key of a broker from a group", lambda _: describe(GROUP, "told-g", "group.consumer.session.timeout.ms")),
        Case("group without a name", lambda _: describe(GROUP, "")),
        Case("a key of a group without a name", lambda _: describe(GROUP, "", _SESSION)),
        *each(_ODD_NAMES, lambda _, name: describe(GROUP, name, _SESSION)),
        Case(
            "set for all groups",
            lambda _: change(BROKER, "", ("group.consumer.assignment.interval.ms", SET, "2000")),
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            versions=[1],
        ),
        *each(
            {"too long": "15001", "too short": "-1", "a word": "x"},
            lambda _, text: change(BROKER, "", ("group.consumer.assignment.interval.ms", SET, text)),
            prefix="set for all groups: ",
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ),
        *each(
            {"too long": "15001", "as long as can be": "15000"},
            lambda _, text: change(BROKER, THIS, ("group.consumer.assignment.interval.ms", SET, text)),
            prefix="set at one broker: ",
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ),
        Case("followed at one broker", lambda _: describe(GROUP, "told-g", _ASSIGNMENT)),
        Case(
            "deleted at one broker",
            lambda _: change(BROKER, THIS, ("group.consumer.assignment.interval.ms", DELETE, None)),
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            versions=[1],
        ),
        Case("followed by a group", lambda _: describe(GROUP, "told-g", _ASSIGNMENT)),
        Case(
            "deleted for all groups",
            lambda _: change(BROKER, "", ("group.consumer.assignment.interval.ms", DELETE, None)),
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            versions=[1],
        ),
        Case("followed no more", lambda _: describe(GROUP, "told-g", _ASSIGNMENT)),
    ],
)

LISTED = Table(
    "ListConfigResources",
    ApiKey.LIST_CONFIG_RESOURCES,
    [
        Case(
            "a group's",
            lambda _: change(GROUP, "listed-g", _LONGER),
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            versions=[1],
        ),
        *each(
            {
                "groups": [GROUP],
                "topics": [TOPIC],
                "brokers": [BROKER],
                "loggers": [LOGGER],
                "client metrics": [METRICS],
                "topics and groups": [TOPIC, GROUP],
                "topics twice": [TOPIC, TOPIC],
                "all": [TOPIC, BROKER, LOGGER, METRICS, GROUP],
                "nothing named": [],
                "kind 0": [0],
                "kind 1": [1],
                "kind 99": [99],
                "a negative kind": [-1],
                "known and unknown kind": [TOPIC, 99],
            },
            lambda _, kinds: ListConfigResourcesRequest(resource_types=kinds),
            versions=[1],
        ),
        Case("client metrics, once the only ones", lambda _: ListConfigResourcesRequest(), versions=[0]),
        Case(
            "deleted",
            lambda _: change(GROUP, "listed-g", (_SESSION, DELETE, None)),
            api=ApiKey.INCREMENTAL_ALTER_CONFIGS,
            versions=[1],
        ),
        Case("groups afterwards", lambda _: ListConfigResourcesRequest(resource_types=[GROUP]), versions=[1]),
    ],
    topics={"listed-t": {}},
)
