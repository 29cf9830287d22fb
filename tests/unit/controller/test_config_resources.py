"""Whose configuration a request may change, and lists that it makes longer or shorter."""

import pytest

from levada.controller.config_changes import incremental_changes
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.alter_configs import AlterConfigsRequest
from levada.protocol.messages.alter_configs import AlterConfigsResource as FullResource
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.unit.controller.clusters import Cluster, create, topic

BROKER = 4
APPEND, SUBTRACT = 2, 3
LIST = "leader.replication.throttled.replicas"


@pytest.mark.parametrize("name", ["one", "\u00b2", "9" * 5_000], ids=["a word", "a superscript", "5,000 digits"])
def test_a_broker_goes_by_its_number(name: str) -> None:
    full = AlterConfigsRequest(
        resources=[FullResource(resource_type=BROKER, resource_name=name, configs=[])], validate_only=False
    )
    incremental = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=[])], validate_only=False
    )
    assert Cluster(1).decide(full).reply.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert Cluster(1).decide(incremental).reply.responses[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("current", "operation", "others", "after"),
    [
        ("1:1", APPEND, "2:1,2:1,1:1,3:1", "1:1,2:1,3:1"),
        ("1:1,2:1,1:1", SUBTRACT, "1:1", "2:1,1:1"),
        ("1:1,2:1,1:1", SUBTRACT, "1:1,1:1,1:1,9:9", "2:1"),
    ],
)
def test_members_of_a_list_come_and_go_one_by_one(current: str, operation: int, others: str, after: str) -> None:
    assert incremental_changes("topic", {LIST: current}, [(LIST, operation, others)]) == {LIST: after}


def test_a_list_of_thousands_is_appended_to_a_list_of_thousands() -> None:
    old, new = (",".join(f"{number}:1" for number in numbers) for numbers in (range(3_000), range(1_500, 4_500)))
    changes = incremental_changes("topic", {LIST: old}, [(LIST, APPEND, new)])
    assert changes == {LIST: ",".join(f"{number}:1" for number in range(4_500))}


def test_only_the_first_refusals_of_a_request_suggest_a_name() -> None:
    """To look for it takes long, and a thousand wrong names are not a person's."""
    cluster = Cluster(1)
    names = [f"t{number}" for number in range(30)]
    cluster.do(create(*(topic(name) for name in names)))
    wrong = AlterableConfig(name="retention.msx", config_operation=0, value="1")
    resources = [AlterConfigsResource(resource_type=2, resource_name=name, configs=[wrong]) for name in names]
    reply = cluster.do(IncrementalAlterConfigsRequest(resources=resources, validate_only=False))
    texts = [one.error_message or "" for one in reply.responses]
    assert texts[0] == "Unknown topic config name: retention.msx; did you mean retention.ms?"
    assert [text.endswith("did you mean retention.ms?") for text in texts] == [True] * 20 + [False] * 10
    assert texts[-1] == "Unknown topic config name: retention.msx"
