"""Configurations of groups that requests change, and those that are refused in Kafka's words."""

import pytest

from levada.controller.config_changes import incremental_changes
from levada.controller.decision import Defaults
from levada.metadata.image import GROUP
from levada.model.error_codes import ErrorCode
from levada.model.errors import InvalidRequest
from levada.protocol.messages.alter_configs import AlterableConfig as FullConfig
from levada.protocol.messages.alter_configs import AlterConfigsRequest
from levada.protocol.messages.alter_configs import AlterConfigsResource as FullResource
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.controller.clusters import Cluster

SET, DELETE, APPEND = range(3)
SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def change(
    cluster: Cluster, group: str, *operations: tuple[str, int, str | None], validate_only: bool = False
) -> tuple[int, str | None]:
    configs = [AlterableConfig(name=name, config_operation=kind, value=value) for name, kind, value in operations]
    resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=configs)
    (answer,) = cluster.do(IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)).responses
    return answer.error_code, answer.error_message


def replace(cluster: Cluster, group: str, configs: dict[str, str | None]) -> tuple[int, str | None]:
    given = [FullConfig(name=name, value=value) for name, value in configs.items()]
    resource = FullResource(resource_type=GROUP, resource_name=group, configs=given)
    (answer,) = cluster.do(AlterConfigsRequest(resources=[resource], validate_only=False)).responses
    return answer.error_code, answer.error_message


def test_an_unknown_group_can_be_configured() -> None:
    cluster = Cluster(1)
    assert change(cluster, "g", (SESSION, SET, "50000"), (HEARTBEAT, SET, "6000")) == (0, None)
    assert cluster.image.config_of(GROUP, "g") == {SESSION: "50000", HEARTBEAT: "6000"}
    assert change(cluster, "g", (SESSION, DELETE, None)) == (0, None)
    assert cluster.image.config_of(GROUP, "g") == {HEARTBEAT: "6000"}


def test_the_older_request_replaces_all_of_a_group() -> None:
    cluster = Cluster(1)
    assert replace(cluster, "g", {SESSION: "50000"}) == (0, None)
    assert replace(cluster, "g", {HEARTBEAT: "6000"}) == (0, None)
    assert cluster.image.config_of(GROUP, "g") == {HEARTBEAT: "6000"}
    too_short = f"{SESSION} must be greater than or equal to group.consumer.min.session.timeout.ms"
    assert replace(cluster, "g", {SESSION: "44999"}) == (ErrorCode.INVALID_CONFIG, too_short)


def test_what_is_only_validated_changes_nothing() -> None:
    cluster = Cluster(1)
    assert change(cluster, "g", (SESSION, SET, "50000"), validate_only=True) == (0, None)
    assert change(cluster, "g", (SESSION, SET, "1"), validate_only=True)[0] == ErrorCode.INVALID_CONFIG
    assert not cluster.image.configs


def test_a_group_must_have_a_name() -> None:
    refused = (ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    assert change(Cluster(1), "", (SESSION, SET, "50000")) == refused
    assert replace(Cluster(1), "", {}) == refused


def test_a_groups_numbers_cannot_be_appended_to() -> None:
    text = f"Can't APPEND to key {SESSION} because its type is not LIST."
    assert change(Cluster(1), "g", (SESSION, APPEND, "1")) == (ErrorCode.INVALID_CONFIG, text)


def test_what_the_broker_was_started_with_bounds_a_group() -> None:
    cluster = Cluster(1)
    cluster.defaults = Defaults(
        given={"group.consumer.min.session.timeout.ms": "4000", "group.consumer.heartbeat.interval.ms": "6000"}
    )
    text = f"{SESSION} must be greater than {HEARTBEAT}"
    assert change(cluster, "g", (SESSION, SET, "6000")) == (ErrorCode.INVALID_CONFIG, text)
    assert change(cluster, "g", (SESSION, SET, "6001")) == (0, None)


def test_new_values_must_go_with_those_that_stay() -> None:
    cluster = Cluster(1)
    cluster.defaults = Defaults(given={"group.consumer.min.session.timeout.ms": "4000"})
    assert change(cluster, "g", (HEARTBEAT, SET, "9000"), (SESSION, SET, "10000")) == (0, None)
    assert change(cluster, "g", (SESSION, SET, "8000"))[0] == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("kind", ["broker", "cluster"])
def test_the_interval_of_all_groups_stays_within_its_bounds(kind: str) -> None:
    name, most = "group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"
    assert incremental_changes(kind, {}, [(name, SET, "15000")]) == {name: "15000"}
    with pytest.raises(InvalidRequest, match=f"{name} must be less than or equal to {most}"):
        incremental_changes(kind, {}, [(name, SET, "15001")])
    assert incremental_changes(kind, {}, [(name, SET, "15001")], {most: "20000"}) == {name: "15001"}


@pytest.mark.parametrize(
    "text", ["by_duration:PT1H", "by_duration:pt1h", "by_duration:P1DT2H3M4.5S", "by_duration:PT0S", "earliest"]
)
def test_a_share_group_begins_at_an_end_or_some_time_ago(text: str) -> None:
    assert change(Cluster(1), "g", ("share.auto.offset.reset", SET, text)) == (0, None)


@pytest.mark.parametrize("text", ["LATEST", "", "by_duration", "by_duration:", "by_duration:P", "by_duration:-PT1H"])
def test_it_begins_nowhere_else(text: str) -> None:
    code, message = change(Cluster(1), "g", ("share.auto.offset.reset", SET, text))
    assert code == ErrorCode.INVALID_CONFIG
    assert message == (
        f"Invalid value {text} for configuration share.auto.offset.reset: Invalid value `{text}` for configuration "
        "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS>'."
    )
