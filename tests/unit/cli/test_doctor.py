"""The doctor's checks, apart from any machine or cluster."""

from pathlib import Path

import pytest

from levada.cli.doctor.findings import Finding, Level
from levada.cli.doctor.machine import (
    check_clock,
    check_disk,
    check_machine,
    check_open_files,
    check_port,
    file_system_of,
)
from levada.cli.doctor.reliability import check_broker, check_consumer, check_producer, check_racks, check_topic
from levada.cli.main import main

SAFE_TOPIC = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
SAFE_CONSUMER = {"group.id": "g", "enable.auto.commit": "false", "auto.offset.reset": "earliest"}


def settings_named(findings: list[Finding]) -> list[tuple[str, str]]:
    """Level and setting of each."""
    return [(one.level, one.what.partition("=")[0]) for one in findings]


@pytest.mark.parametrize(
    ("replicas", "settings", "expected"),
    [
        (3, SAFE_TOPIC, []),
        (1, SAFE_TOPIC, [("risk", "replication.factor")]),
        (3, {"min.insync.replicas": "1"}, [("risk", "min.insync.replicas")]),
        (3, {}, [("risk", "min.insync.replicas")]),
        (3, {**SAFE_TOPIC, "min.insync.replicas": "3"}, [("note", "min.insync.replicas")]),
        (3, {**SAFE_TOPIC, "unclean.leader.election.enable": "true"}, [("risk", "unclean.leader.election.enable")]),
    ],
)
def test_a_topics_risks(replicas: int, settings: dict[str, str], expected: list[tuple[str, str]]) -> None:
    assert settings_named(list(check_topic("orders", replicas, settings))) == expected


def test_a_broker_that_is_set_up_well_has_none() -> None:
    settings = {
        "default.replication.factor": "3",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "min.insync.replicas": "2",
        "transaction.state.log.min.isr": "2",
        "unclean.leader.election.enable": "false",
    }
    assert list(check_broker(1, settings)) == []
    for key in settings:
        worse = {**settings, key: "true" if key.startswith("unclean") else "1"}
        assert settings_named(list(check_broker(1, worse))) == [("risk", key)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, []),
        ({"acks": "-1", "retries": "5"}, []),
        ({"acks": "1"}, [("risk", "acks"), ("risk", "enable.idempotence")]),
        ({"acks": "0", "enable.idempotence": "false"}, [("risk", "acks"), ("risk", "enable.idempotence")]),
        ({"retries": "0"}, [("risk", "retries"), ("risk", "enable.idempotence")]),
        ({"enable.idempotence": "false"}, [("risk", "enable.idempotence")]),
        ({"delivery.timeout.ms": "5000"}, [("note", "delivery.timeout.ms")]),
    ],
)
def test_a_producers_risks(given: dict[str, str], expected: list[tuple[str, str]]) -> None:
    assert settings_named(list(check_producer("file", given))) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (SAFE_CONSUMER, []),
        ({**SAFE_CONSUMER, "enable.auto.commit": "true"}, [("risk", "enable.auto.commit")]),
        ({"group.id": "g"}, [("risk", "enable.auto.commit"), ("risk", "auto.offset.reset")]),
        ({**SAFE_CONSUMER, "auto.offset.reset": "none"}, []),
        ({**SAFE_CONSUMER, "session.timeout.ms": "6000"}, [("note", "session.timeout.ms")]),
        ({"auto.offset.reset": "earliest"}, [("note", "group.id is not set: no position is kept between two runs")]),
    ],
)
def test_a_consumers_risks(given: dict[str, str], expected: list[tuple[str, str]]) -> None:
    assert settings_named(list(check_consumer("file", given))) == expected


def test_brokers_that_share_a_rack_are_noted() -> None:
    assert list(check_racks(["a", "b", "c"])) == []
    assert list(check_racks([None])) == []
    assert [one.level for one in check_racks([None, None])] == [Level.NOTE]


def test_the_file_system_of_a_place_is_the_innermost_mount() -> None:
    mounts = [("/", "ext4"), ("/data", "nfs4"), ("/database", "xfs")]
    assert file_system_of(Path("/data/topics"), mounts) == "nfs4"
    assert file_system_of(Path("/database"), mounts) == "xfs"
    assert file_system_of(Path("/datab"), mounts) == "ext4"
    assert file_system_of(Path("/data"), []) is None


def test_a_full_disk_and_few_open_files_are_risks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {one.level for one in check_open_files([tmp_path])} <= {Level.OK, Level.RISK}
    monkeypatch.setattr("levada.cli.doctor.machine.resource.getrlimit", lambda _: (1_024, 4_096))
    [found] = check_open_files([tmp_path])
    assert found.level == Level.RISK
    assert "ulimit -n 10000" in found.remedy
    assert "hard limit is 4096" in found.remedy
    monkeypatch.setattr("levada.cli.doctor.machine.LEAST_FREE_BYTES", 1 << 60)
    assert next(iter(check_disk(tmp_path))).level == Level.RISK


def test_a_clock_that_was_set_back_is_a_risk(tmp_path: Path) -> None:
    import os
    import time

    log = tmp_path / "orders-0" / "00000000000000000000.log"
    log.parent.mkdir()
    log.touch()
    assert Level.RISK not in {one.level for one in check_clock([tmp_path])}
    later = time.time() + 3_600
    os.utime(log, (later, later))
    assert "set back" in next(one.what for one in check_clock([tmp_path]) if one.level == Level.RISK)


def test_every_data_directory_is_looked_at(tmp_path: Path) -> None:
    import os
    import time

    directories = [tmp_path / "a", tmp_path / "b"]
    for directory in directories:
        (directory / "orders-0").mkdir(parents=True)
        (directory / "orders-0" / "00000000000000000000.log").touch()
    later = time.time() + 3_600
    os.utime(directories[1] / "orders-0" / "00000000000000000000.log", (later, later))
    found = list(check_machine(directories, ("localhost", 0)))
    assert next(one.what for one in found if one.where == "open files").endswith("2 segments on disk")
    rooms = [one.what for one in found if one.where == "disk" and "free of" in one.what]
    assert [room.rpartition(" ")[2] for room in rooms] == [str(one) for one in directories]
    assert next(one.what for one in found if "set back" in one.what).startswith(f"files in {directories[1]} ")


def test_a_port_that_something_else_has_is_a_risk() -> None:
    import socket

    with socket.create_server(("localhost", 0)) as taken:
        # It accepts, and says nothing: no broker does that.
        taken.setblocking(False)
        port = taken.getsockname()[1]
        [found] = check_port("localhost", port)
    assert found.level == Level.RISK
    [found] = check_port("localhost", 0)
    assert found.level == Level.OK


@pytest.mark.parametrize(
    ("arguments", "line", "code"),
    [
        (["--client-config", "/nowhere"], "levada: cannot read --client-config /nowhere: No such file or dir", 1),
        (["--topic", "orders"], "levada: --topic is looked at in the cluster, and --no-cluster leaves that out", 2),
        (["--topik", "orders"], "levada: there is no flag --topik; did you mean --topic?", 2),
    ],
)
def test_wrong_usage_is_one_line(
    arguments: list[str], line: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: object
    try:
        ended = main(["doctor", "--no-cluster", "--no-machine", *arguments])
    except SystemExit as end:
        ended = end.code
    assert ended == code
    printed = capsys.readouterr()
    assert printed.err.startswith(line)
    assert printed.err.count("\n") == 1
    assert printed.out == ""
