"""`levada topics` where no golden text can say it: ids, many topics, interruptions."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from levada import Admin
from levada.cli.kit.batches import BATCH
from levada.client.admin import NewTopic
from tests.tools.interrupting import interrupted
from tests.tools.running import run_ours
from tests.tools.scenario import Stage
from tests.tools.stages import our_stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with our_stage(tmp_path_factory.mktemp("topics")) as stage:
        yield stage


def test_a_topic_is_described_by_its_id(stage: Stage) -> None:
    server = ["--bootstrap-server", stage.bootstrap]
    run_ours(["topics", "--create", "--topic", "by-id", *server])
    listed = json.loads(run_ours(["topics", "--list", "--topic", "by-id", "--json", *server]).out)
    (topic,) = listed
    described = run_ours(["topics", "--describe", "--topic", "other", "--topic-id", topic["topic_id"], *server])
    assert described.out.splitlines() == [
        f"Topic: by-id\tTopicId: {topic['topic_id']}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: ",
        "\tTopic: by-id\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: N/A\tLastKnownElr: N/A",
    ]


def test_more_topics_than_fit_one_request_are_deleted(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        admin.create_topics([NewTopic(f"many-{index}", 1) for index in range(BATCH + 1)]).raise_any()
    deleted = run_ours(["topics", "--delete", "--topic", "many-.*", "--bootstrap-server", stage.bootstrap])
    assert (deleted.code, deleted.out, deleted.err) == (0, "", "")
    with Admin(stage.bootstrap) as admin:
        assert not [name for name in admin.list_topics() if name.startswith("many-")]


def test_what_failed_and_what_did_not_is_said_when_topics_are_altered(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        admin.create_topics([NewTopic("grow-1", 1), NewTopic("grow-3", 3)]).raise_any()
    server = ["--bootstrap-server", stage.bootstrap]
    altered = run_ours(["topics", "--alter", "--topic", "grow-.*", "--partitions", "2", *server])
    assert altered.code == 1
    assert altered.err.startswith("levada: grow-3: INVALID_PARTITIONS")
    assert altered.err.endswith("; the other 1 topics have their partitions\n")


def test_a_port_without_a_broker_is_one_line() -> None:
    listed = run_ours(["topics", "--list", "--bootstrap-server", "localhost:1"])
    assert (listed.code, listed.out) == (1, "")
    assert listed.err.startswith("levada: no Kafka broker answers: localhost:1 refused the connection")
    assert listed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--list"], "levada: interrupted\n"),
        (
            ["--create", "--topic", "orders"],
            "levada: interrupted while topic orders was being created: it may or may not have been done\n",
        ),
    ],
)
def test_who_interrupts_hears_whether_something_may_have_changed(arguments: list[str], line: str) -> None:
    ran = interrupted(["topics", *arguments])
    assert (ran.code, ran.out, ran.err) == (130, "", line)


def test_an_unreadable_settings_file_changes_nothing(stage: Stage, tmp_path: Path) -> None:
    arguments = ["--create", "--topic", "unmade", "--command-config", str(tmp_path / "absent")]
    assert run_ours(["topics", *arguments, "--bootstrap-server", stage.bootstrap]).code == 1
    with Admin(stage.bootstrap) as admin:
        assert "unmade" not in admin.list_topics()
