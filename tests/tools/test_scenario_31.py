"""Scenario 31: a command names every loss risk in the settings of a topic, its brokers and a client's config."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from levada import Admin, Consumer
from levada.client.admin import NewTopic
from tests.tools.running import run_ours
from tests.tools.scenario import Stage
from tests.tools.stages import our_stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with our_stage(tmp_path_factory.mktemp("doctor")) as stage:
        with Admin(stage.bootstrap) as admin:
            configs = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
            admin.create_topics([NewTopic("orders", 1, configs=configs), NewTopic("plain", 1)]).raise_any()
        yield stage


def doctor(stage: Stage, *arguments: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    server = ("--bootstrap-server", stage.bootstrap)
    ran = run_ours(["doctor", "--no-machine", "--json", *server, *arguments])
    assert ran.err == ""
    return ran.code, json.loads(ran.out)


def risks(found: list[dict[str, str]], where: str, *levels: str) -> dict[str, str]:
    """Setting with its value, and the remedy, of each risk; with one broker, what only more could mend is a note."""
    return {
        one["what"].partition(":")[0]: one["remedy"]
        for one in found
        if one["where"] == where and one["level"] in (levels or ("risk", "note"))
    }


def test_every_risk_of_a_topic_its_brokers_and_a_clients_config_is_named(stage: Stage) -> None:
    producer, consumer = stage.directory / "producer.properties", stage.directory / "consumer.properties"
    producer.write_text("acks=1\nretries=0\n")
    consumer.write_text("group.id=billing\nenable.auto.commit=true\nauto.offset.reset=earliest\n")
    files = ("--client-config", str(producer), "--client-config", str(consumer))
    code, found = doctor(stage, "--topic", "orders", *files)
    assert code == 1
    topic = risks(found["cluster"], "topic orders")
    assert set(topic) == {"replication.factor=1", "min.insync.replicas=1", "unclean.leader.election.enable=true"}
    assert topic["min.insync.replicas=1"] == "set min.insync.replicas=2"
    assert topic["unclean.leader.election.enable=true"] == "set unclean.leader.election.enable=false"
    assert set(risks(found["cluster"], "topic orders", "risk")) == {"unclean.leader.election.enable=true"}
    assert {"default.replication.factor=1", "min.insync.replicas=1"} <= set(risks(found["cluster"], "broker 1"))
    assert set(risks(found["clients"], "producer.properties (producer)")) == {
        "acks=1",
        "retries=0",
        "enable.idempotence=false",
    }
    assert risks(found["clients"], "consumer.properties (consumer)") == {
        "enable.auto.commit=true": "set enable.auto.commit=false and commit after processing"
    }


def test_settings_without_a_risk_are_exit_code_0(stage: Stage, tmp_path: Path) -> None:
    safe = tmp_path / "safe.properties"
    safe.write_text("group.id=billing\nenable.auto.commit=false\nauto.offset.reset=earliest\n")
    code, found = doctor(stage, "--no-cluster", "--client-config", str(safe))
    assert (code, found) == (0, {"clients": []})


def test_a_sound_broker_by_itself_is_exit_code_0_and_its_internal_topics_are_not_counted(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin, Consumer(stage.bootstrap, group_id="g", enable_auto_commit=False) as consumer:
        consumer.commit({("plain", 0): 0})
        assert "__consumer_offsets" in admin.list_topics(include_internal=True)
    code, found = doctor(stage, "--topic", "plain")
    assert code == 0
    _, found = doctor(stage)
    assert [one["what"] for one in found["cluster"] if one["where"] == "topics"] == ["2 topics looked at"]


def test_an_old_producers_file_is_known_as_one(stage: Stage, tmp_path: Path) -> None:
    old = tmp_path / "old.properties"
    old.write_text("metadata.broker.list=localhost:9092\nrequest.required.acks=1\nqueue.enqueue.timeout.ms=0\n")
    code, found = doctor(stage, "--no-cluster", "--client-config", str(old))
    assert code == 1
    assert {"request.required.acks=1", "queue.enqueue.timeout.ms=0"} <= set(
        risks(found["clients"], "old.properties (producer)", "risk")
    )
    assert not risks(found["clients"], "old.properties (consumer)")


def test_all_topics_are_looked_at_when_none_is_named(stage: Stage) -> None:
    _, found = doctor(stage)
    topics = {one["where"] for one in found["cluster"] if one["where"].startswith("topic ")}
    assert topics == {"topic orders", "topic plain"}
    assert set(risks(found["cluster"], "topic plain")) == {"replication.factor=1", "min.insync.replicas=1"}


def test_text_has_one_line_for_each_finding(stage: Stage) -> None:
    ran = run_ours(["doctor", "--no-machine", "--bootstrap-server", stage.bootstrap, "--topic", "orders"])
    assert ran.code == 1
    heading, *lines = ran.out.splitlines()
    assert heading == "cluster"
    assert "  note  topic orders: replication.factor=1: the records live on one broker" in ran.out
    assert all(line.startswith(("  ok  ", "  note  ", "  risk  ")) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--topic", "nowhere"], "levada: topic nowhere: UNKNOWN_TOPIC_OR_PARTITION"),
        (["--bootstrap-server", "localhost:1"], "levada: no Kafka broker answers: localhost:1 "),
        (["--bootstrap-server", "localhost"], "levada: bootstrap.servers must have the form host:port"),
        (["--client-config", "nowhere"], "levada: cannot read --client-config nowhere"),
    ],
)
def test_what_cannot_be_looked_at_is_one_line(stage: Stage, arguments: list[str], line: str) -> None:
    ran = run_ours(["doctor", "--no-machine", "--bootstrap-server", stage.bootstrap, *arguments])
    assert ran.code == 1
    assert ran.out == ""
    assert ran.err.startswith(line)
    assert ran.err.count("\n") == 1
