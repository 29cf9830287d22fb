"""What a group may choose within the broker's bounds, in Kafka's words, and what is warned of."""

from collections.abc import Callable
from typing import Any

import pytest

from levada.model.broker_keys import NODE_KEYS
from levada.model.config import Config
from levada.model.config_checks import config_fault
from levada.model.group_checks import group_fault, session_warning
from levada.model.group_keys import GROUP_KEYS

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
WIDE = {"group.consumer.min.session.timeout.ms": "1", "group.consumer.min.heartbeat.interval.ms": "1"}


def broker(given: dict[str, str] | None = None) -> Callable[[str], Any]:
    return Config(NODE_KEYS, given or {}).__getitem__


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("consumer.heartbeat.interval.ms", 5_000, 15_000),
        ("consumer.session.timeout.ms", 45_000, 60_000),
        ("consumer.assignment.interval.ms", 0, 15_000),
        ("share.heartbeat.interval.ms", 5_000, 15_000),
        ("share.session.timeout.ms", 45_000, 60_000),
        ("share.record.lock.duration.ms", 15_000, 60_000),
        ("share.delivery.count.limit", 2, 10),
        ("share.partition.max.record.locks", 100, 4_000),
        ("share.assignment.interval.ms", 0, 15_000),
        ("streams.heartbeat.interval.ms", 5_000, 15_000),
        ("streams.session.timeout.ms", 45_000, 60_000),
        ("streams.assignment.interval.ms", 0, 15_000),
    ],
)
def test_the_broker_bounds_what_a_group_chooses(name: str, least: int, most: int) -> None:
    kind, _, what = name.partition(".")
    assert group_fault({name: least}, broker()) is None
    assert group_fault({name: most}, broker()) is None
    low = f"{name} must be greater than or equal to group.{kind}.min.{what}"
    high = f"{name} must be less than or equal to group.{kind}.max.{what}"
    assert group_fault({name: least - 1}, broker()) == low
    assert group_fault({name: most + 1}, broker()) == high


def test_standby_replicas_are_bounded_above() -> None:
    name, most = "streams.num.standby.replicas", "group.streams.max.standby.replicas"
    assert group_fault({name: 2}, broker()) is None
    assert group_fault({name: 3}, broker()) == f"{name} must be less than or equal to {most}"


@pytest.mark.parametrize("kind", ["consumer", "share", "streams"])
def test_a_session_outlives_a_heartbeat_interval(kind: str) -> None:
    session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
    wide = broker({f"group.{kind}.min.session.timeout.ms": "1", f"group.{kind}.min.heartbeat.interval.ms": "1"})
    fault = f"{session} must be greater than {heartbeat}"
    assert group_fault({session: 6_000, heartbeat: 6_000}, wide) == fault
    assert group_fault({session: 6_001, heartbeat: 6_000}, wide) is None
    # Where a group says nothing, the broker's own heartbeat interval counts.
    assert group_fault({session: 5_000}, wide) == fault
    assert group_fault({session: 5_001}, wide) is None


def test_only_a_groups_own_assignment_interval_is_held_against_the_bounds() -> None:
    narrow = {"group.consumer.max.assignment.interval.ms": "500"}
    assert group_fault({}, broker(narrow)) is None
    assert group_fault({"consumer.assignment.interval.ms": 501}, broker(narrow)) is not None


def test_the_defaults_of_groups_are_those_of_the_broker() -> None:
    for key in GROUP_KEYS:
        if key.broker_default is not None:
            assert broker()(key.broker_default) == key.default


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (
            {"group.consumer.session.timeout.ms": "44999"},
            "group.consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            {"group.streams.heartbeat.interval.ms": "15001"},
            "group.streams.heartbeat.interval.ms must be less than or equal to group.streams.max.heartbeat.interval.ms",
        ),
        (
            {"group.share.max.session.timeout.ms": "44999"},
            "group.share.max.session.timeout.ms must be greater than or equal to group.share.min.session.timeout.ms",
        ),
        (
            {**WIDE, "group.consumer.session.timeout.ms": "5000"},
            "group.consumer.heartbeat.interval.ms must be less than group.consumer.session.timeout.ms",
        ),
        (
            {"group.streams.num.standby.replicas": "3"},
            "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
    ],
)
def test_a_broker_does_not_start_with_values_outside_its_own_bounds(given: dict[str, str], fault: str) -> None:
    assert config_fault(Config(NODE_KEYS, given)) == fault


def test_scenario_17_a_session_below_three_heartbeats_is_warned_of() -> None:
    assert session_warning(SESSION, 18_000, HEARTBEAT, 6_000) is None
    assert session_warning(SESSION, 17_999, HEARTBEAT, 6_000) == (
        "consumer.session.timeout.ms=17999 is below three times consumer.heartbeat.interval.ms=6000: members may be "
        "taken for dead that are not; set consumer.session.timeout.ms to at least 18000 or "
        "consumer.heartbeat.interval.ms to at most 5999"
    )
