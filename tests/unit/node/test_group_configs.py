"""What is configured for groups has its effect in a running node, and is warned of where it is unwise."""

import asyncio
import logging
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from levada.metadata.image import BROKER, GROUP, TOPIC
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from levada.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from levada.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.nodes import RunningNode, running_node

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
ASSIGNMENT = "group.consumer.assignment.interval.ms"
WIDE = {"group.consumer.min.session.timeout.ms": "1000", "group.consumer.min.heartbeat.interval.ms": "1000"}


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def change(node: RunningNode, kind: int, name: str, **values: str | None) -> None:
    """Set keys, whose dots are written `_`; None deletes."""
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=int(value is None), value=value)
        for key, value in values.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    answer = await node.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == 0, answer


async def joined(node: RunningNode, group: str, member: str, epoch: int = 0) -> Any:
    """A member that wants `orders`, or goes on to."""
    await node.call(FindCoordinatorRequest(coordinator_keys=[group], key_type=0))
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if epoch == 0 else -1,
        subscribed_topic_names=["orders"] if epoch == 0 else None,
        topic_partitions=[] if epoch == 0 else None,
    )
    async with asyncio.timeout(10):
        while True:
            answer = await node.call(request)
            if answer.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                assert answer.error_code == 0, answer
                return answer
            await asyncio.sleep(0.01)


async def described(node: RunningNode, group: str, *keys: str) -> Any:
    resource = DescribeConfigsResource(resource_type=GROUP, resource_name=group, configuration_keys=list(keys) or None)
    answer = await node.call(DescribeConfigsRequest(resources=[resource], include_documentation=True))
    return answer.results[0]


async def listed(node: RunningNode, *kinds: int) -> list[tuple[int, str]]:
    answer = await node.call(ListConfigResourcesRequest(resource_types=list(kinds)))
    assert answer.error_code == 0
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_members_hear_of_a_new_heartbeat_interval_with_their_next_heartbeat(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("orders")
            first = await joined(node, "g", "m")
            assert first.heartbeat_interval_ms == 5_000
            await change(node, GROUP, "g", consumer_heartbeat_interval_ms="7000")
            assert (await joined(node, "g", "m", first.member_epoch)).heartbeat_interval_ms == 7_000
            assert (await joined(node, "other", "m")).heartbeat_interval_ms == 5_000
            await change(node, GROUP, "g", consumer_heartbeat_interval_ms=None)
            assert (await joined(node, "g", "m", first.member_epoch)).heartbeat_interval_ms == 5_000

    run(main())


def test_what_a_group_was_told_is_known_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await change(node, GROUP, "g", consumer_session_timeout_ms="50000")
        async with running_node(tmp_path) as node:
            (entry,) = (await described(node, "g", SESSION)).configs
            assert (entry.value, entry.config_source) == ("50000", 8)
            assert entry.documentation.startswith("A member that is silent")

    run(main())


def test_a_group_without_a_name_is_not_described(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            answer = await described(node, "")
            assert (answer.error_code, answer.error_message) == (
                ErrorCode.INVALID_REQUEST,
                "Group name must not be empty",
            )
            assert len((await described(node, "unknown")).configs) == 17

    run(main())


def test_the_assignment_interval_of_all_groups_changes_while_the_broker_runs(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path, {ASSIGNMENT: "0"}) as node:
            await node.create("orders")
            first = await joined(node, "g", "one")
            second = await joined(node, "g", "two")
            assert second.member_epoch > first.member_epoch
            await change(node, BROKER, "", group_consumer_assignment_interval_ms="15000")
            # While a group waits for its next assignment, who joins has the epoch of the last.
            assert (await joined(node, "g", "three")).member_epoch == second.member_epoch
            await change(node, BROKER, "", group_consumer_assignment_interval_ms=None)
            assert (await joined(node, "g", "four")).member_epoch > second.member_epoch + 1

    run(main())


def test_coordinators_of_a_later_day_have_the_newest_settings(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path, {ASSIGNMENT: "15000"}) as node:
            await change(node, BROKER, "1", group_consumer_assignment_interval_ms="0")
            await node.create("orders")
            first = await joined(node, "g", "one")
            assert (await joined(node, "g", "two")).member_epoch > first.member_epoch

    run(main())


def test_resources_are_listed_by_their_kinds(tmp_path: Path) -> None:
    async def main() -> None:
        async with running_node(tmp_path) as node:
            await node.create("orders")
            assert await listed(node, GROUP) == []
            await change(node, GROUP, "g", consumer_session_timeout_ms="50000")
            assert await listed(node, GROUP, TOPIC) == [(GROUP, "g"), (TOPIC, "orders")]
            assert await listed(node) == [(TOPIC, "orders"), (BROKER, "1"), (8, "1"), (GROUP, "g")]
            await change(node, GROUP, "g", consumer_session_timeout_ms=None)
            assert await listed(node, GROUP) == []
            refused = await node.call(ListConfigResourcesRequest(resource_types=[TOPIC, 99]))
            assert (refused.error_code, refused.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])
            assert (await node.call(ListConfigResourcesRequest(), 0)).config_resources == []

    run(main())


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was warned of since this was asked last."""
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return lines


def test_scenario_17_a_session_below_three_heartbeats_is_warned_of_at_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running_node(tmp_path, WIDE | {f"group.{SESSION}": "14999"}):
            (line,) = warnings(caplog)
            assert line == (
                "group.consumer.session.timeout.ms=14999 is below three times "
                "group.consumer.heartbeat.interval.ms=5000: members may be taken for dead that are not; "
                "set group.consumer.session.timeout.ms to at least 15000 "
                "or group.consumer.heartbeat.interval.ms to at most 4999"
            )
        async with running_node(tmp_path, WIDE | {f"group.{SESSION}": "15000"}):
            assert warnings(caplog) == []

    run(main())


def test_scenario_17_a_session_below_three_heartbeats_is_warned_of_when_a_group_is_given_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with running_node(tmp_path, WIDE) as node:
            assert warnings(caplog) == []
            await change(node, GROUP, "g", consumer_session_timeout_ms="9000")
            (line,) = warnings(caplog)
            assert line == (
                "group=g consumer.session.timeout.ms=9000 is below three times consumer.heartbeat.interval.ms=5000: "
                "members may be taken for dead that are not; set consumer.session.timeout.ms to at least 15000 "
                "or consumer.heartbeat.interval.ms to at most 3000"
            )
            await change(node, GROUP, "g", consumer_heartbeat_interval_ms="3000")
            await change(node, GROUP, "h", share_delivery_count_limit="4")
            assert warnings(caplog) == []

    run(main())
