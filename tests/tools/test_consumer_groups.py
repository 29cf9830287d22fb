"""`levada consumer-groups` where no golden text can say it: interruptions, very many groups, failures midway."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from levada import Admin
from levada.cli.kit.batches import BATCH
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.tools.interrupting import _heed_interrupts, interrupted
from tests.tools.running import run_ours

WAIT_SECONDS = 30.0
ORDERS = TopicPartition("orders", 0)
GROUPS = [f"group-{number:04}" for number in range(400)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("groups") / "data", "offsets.topic.num.partitions=1").start()
    try:
        with Admin(process.bootstrap) as admin:
            admin.create_topics([NewTopic("orders", 1)]).raise_any()
        yield process
    finally:
        code = process.stop()
    assert code == 0


def commit(broker: BrokerProcess, groups: list[str], offset: int) -> None:
    with Admin(broker.bootstrap) as admin:
        for group in groups:
            admin.alter_group_offsets(group, {ORDERS: offset}).raise_any()


def committed(broker: BrokerProcess, groups: list[str]) -> dict[str, int]:
    with Admin(broker.bootstrap) as admin:
        found = admin.list_group_offsets(groups)
    return {group: found[group][ORDERS].offset for group in groups}  # type: ignore[union-attr]


def test_who_interrupts_a_reset_of_many_groups_sees_which_are_done(broker: BrokerProcess) -> None:
    commit(broker, GROUPS, 5)
    command = [sys.executable, "-m", "levada", "consumer-groups", "--reset-offsets", "--execute", "--all-groups"]
    command += ["--all-topics", "--to-earliest", "--bootstrap-server", broker.bootstrap]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        shown = [process.stdout.readline() for _ in range(5)]
        # From now on nothing is answered, whichever group it is that is being reset.
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            os.kill(process.pid, signal.SIGINT)
            # What is read ahead already is lost to `communicate`.
            rest, err = process.stdout.read(), process.stderr.read()
            process.wait(WAIT_SECONDS)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
    done = [line.split()[0] for line in [*shown, *rest.splitlines()] if line.startswith("group-")]
    assert process.returncode == 130
    assert 0 < len(done) < len(GROUPS)
    assert done == GROUPS[: len(done)]
    said = re.fullmatch(
        r"levada: interrupted while resetting the offsets of group 'group-(\d+)', after (\d+) of 400 groups:"
        r" it may or may not have been done\n",
        err,
    )
    assert said, err
    doubtful = int(said[1])
    assert doubtful == int(said[2])
    # The one that is in doubt may have been shown just then.
    assert doubtful in (len(done), len(done) - 1)
    assert set(committed(broker, done).values()) == {0}
    assert set(committed(broker, GROUPS[doubtful + 1 :]).values()) == {5}


def test_a_plan_that_is_wrong_for_one_group_changes_none(broker: BrokerProcess, tmp_path: Path) -> None:
    commit(broker, ["good", "bad"], 5)
    plan = tmp_path / "plan.csv"
    plan.write_text("good,orders,0,0\nbad,nowhere,0,0\n")
    reset = ["consumer-groups", "--reset-offsets", "--execute", "--group", "good", "--group", "bad"]
    ran = run_ours([*reset, "--from-file", str(plan), "--bootstrap-server", broker.bootstrap])
    assert ran.out == (
        '\nError: Executing consumer group command failed due to The partitions "nowhere-0" do not exist\n'
    )
    assert committed(broker, ["good", "bad"]) == {"good": 5, "bad": 5}


def test_more_groups_than_fit_one_request_are_deleted(broker: BrokerProcess) -> None:
    many = [f"many-{number}" for number in range(BATCH + 1)]
    commit(broker, many, 1)
    wanted = [word for group in many for word in ("--group", group)]
    deleted = run_ours(["consumer-groups", "--delete", *wanted, "--bootstrap-server", broker.bootstrap])
    names = ", ".join(f"'{group}'" for group in many)
    assert (deleted.code, deleted.err) == (0, "")
    assert deleted.out == f"Deletion of requested consumer groups ({names}) was successful.\n"
    listed = run_ours(["consumer-groups", "--list", "--json", "--bootstrap-server", broker.bootstrap])
    assert not set(many) & {group["group"] for group in json.loads(listed.out)}


@pytest.mark.parametrize("tool", [["consumer-groups", "--list"], ["groups", "--list"], ["transactions", "list"]])
def test_a_port_without_a_broker_is_one_line(tool: list[str]) -> None:
    ran = run_ours([*tool, "--bootstrap-server", "localhost:1"])
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith("levada: no Kafka broker answers: localhost:1 refused the connection")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("groups --list", "interrupted"),
        ("consumer-groups --describe --group a", "interrupted"),
        ("consumer-groups --reset-offsets --execute --group a --topic t --to-latest", "interrupted"),
        (
            "consumer-groups --delete --group a",
            "interrupted while deleting groups: 0 of 1 were seen to, the rest may or may not have been done",
        ),
        (
            "consumer-groups --delete-offsets --group a --topic t:0",
            "interrupted while deleting offsets of group 'a': it may or may not have been done",
        ),
        ("transactions list", "interrupted"),
        (
            "transactions forceTerminateTransaction --transactionalId copier",
            "interrupted while aborting the transaction of 'copier': it may or may not have been done",
        ),
    ],
)
def test_who_interrupts_hears_whether_something_may_have_changed(line: str, said: str) -> None:
    ran = interrupted(line.split())
    assert (ran.code, ran.out, ran.err) == (130, "", f"levada: {said}\n")
