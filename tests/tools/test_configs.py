"""`levada configs` where no golden text can say it: what our broker does not serve, secrets, interruptions."""

import json
from collections.abc import Iterator

import pytest

from tests.tools.interrupting import interrupted
from tests.tools.running import run_ours
from tests.tools.scenario import Ran, Stage
from tests.tools.stages import our_stage


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with our_stage(tmp_path_factory.mktemp("configs")) as stage:
        yield stage


def run(stage: Stage, line: str) -> Ran:
    return run_ours(["configs", *line.split(), "--bootstrap-server", stage.bootstrap])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "--describe --user alice",
            "does not serve DescribeClientQuotas, so there are no quotas to describe or change",
        ),
        ("--describe --entity-type ips", "does not serve DescribeClientQuotas, so there are no quotas"),
        ("--alter --client a --add-config producer_byte_rate=1", "does not serve DescribeClientQuotas, so there are"),
        (
            "--alter --user a --add-config SCRAM-SHA-256=[password=x]",
            "does not serve AlterUserScramCredentials, so there are no passwords to describe or change",
        ),
        (
            "--alter --client-metrics slow --add-config interval.ms=100",
            "INVALID_REQUEST (42): Unknown resource type 16",
        ),
    ],
)
def test_what_the_broker_does_not_serve_is_one_line(stage: Stage, line: str, said: str) -> None:
    ran = run(stage, line)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)
    assert said in ran.err


def test_a_brokers_settings_are_all_there_and_its_loggers_too(stage: Stage) -> None:
    described = run(stage, "--describe --broker 1 --all")
    assert "  node.id=1 sensitive=false synonyms={" in described.out
    (broker,) = json.loads(run(stage, "--describe --broker 1 --all --json").out)
    names = [config["name"] for config in broker["configs"]]
    assert len(names) == described.out.count("\n") - 1
    assert names == sorted(names)
    loggers = run(stage, "--describe --broker-logger 1").out.splitlines()
    assert loggers[0] == "Dynamic configs for broker-logger 1 are:"
    assert any(line.startswith("  root=INFO ") for line in loggers)


def test_a_loggers_level_is_changed_and_given_back(stage: Stage) -> None:
    def level() -> str:
        (described,) = json.loads(run(stage, "--describe --broker-logger 1 --json").out)
        levels: dict[str, str] = {config["name"]: config["value"] for config in described["configs"]}
        return levels["levada.broker.broker"]

    changed = run(stage, "--alter --broker-logger 1 --add-config levada.broker.broker=DEBUG")
    assert changed.out == "Completed updating config for broker-logger 1.\n"
    assert level() == "DEBUG"
    run(stage, "--alter --broker-logger 1 --delete-config levada.broker.broker")
    assert level() == "INFO"


def test_nothing_is_changed_where_one_of_the_settings_is_wrong(stage: Stage) -> None:
    run_ours(["topics", "--create", "--topic", "orders", "--bootstrap-server", stage.bootstrap])
    assert run(stage, "--alter --topic orders --add-config retention.ms=1,segment.ms=soon").code == 1
    assert run(stage, "--describe --topic orders").out == "Dynamic configs for topic orders are:\n"


def test_who_interrupts_hears_whether_something_may_have_changed() -> None:
    looked = interrupted(["configs", "--describe", "--topic", "orders"])
    assert (looked.code, looked.out, looked.err) == (130, "", "levada: interrupted\n")
    changed = interrupted(["configs", "--alter", "--topic", "orders", "--add-config", "retention.ms=1"])
    assert (changed.code, changed.out) == (130, "")
    assert changed.err == (
        "levada: interrupted while settings of topic orders were being changed: it may or may not have been done\n"
    )
