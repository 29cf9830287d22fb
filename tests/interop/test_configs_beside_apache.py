"""`levada configs` beside Apache's tool: what is too long for a golden file, and what our broker does not serve."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.apache_broker import ApacheBroker
from tests.tools.running import run_apaches, run_ours
from tests.tools.scenario import Said, Scenario, Stage, Step, play
from tests.tools.stages import our_stage

pytestmark = pytest.mark.usefixtures("apache_jars")

LOGGER = (r"(?m)^  [\w.$]+=(DEBUG|INFO|WARN|ERROR|FATAL)\b.*\n", "")
"""Which loggers there are changes while a broker runs."""

READING = Scenario("configs", "all", [
    Step("configs --describe --broker 1 --all"),
    Step("configs --describe --broker-defaults --all"),
    Step("configs --describe --broker-logger 1", masks=(LOGGER,)),
    Step("configs --alter --broker-logger 1 --add-config root=WARN"),
    Step("configs --alter --entity-type broker-loggers --entity-name 1 --add-config root=INFO"),
    Step("configs --alter --broker-logger 1 --delete-config root", fails=True),
])  # fmt: skip

QUOTAS = Scenario("configs", "quotas", [
    Step("configs --alter --user alice --add-config producer_byte_rate=1024"),
    Step("configs --alter --user-defaults --add-config consumer_byte_rate=20000000"),
    Step("configs --alter --client reader --add-config request_percentage=0.0005"),
    Step("configs --alter --client-defaults --add-config controller_mutation_rate=12.5"),
    Step("configs --alter --user alice --client reader --add-config producer_byte_rate=123456789"),
    Step("configs --alter --entity-type users --entity-name alice --entity-type clients --entity-default"
         " --add-config consumer_byte_rate=4096"),
    Step("configs --alter --ip 127.0.0.1 --add-config connection_creation_rate=7"),
    Step("configs --alter --ip-defaults --add-config connection_creation_rate=9"),
    Step("configs --describe --user alice"),
    Step("configs --describe --user absent"),
    Step("configs --describe --user-defaults"),
    Step("configs --describe --entity-type users", any_order=True),
    Step("configs --describe --entity-type clients", any_order=True),
    Step("configs --describe --client-defaults"),
    Step("configs --describe --user alice --client reader"),
    Step("configs --describe --entity-type users --entity-name alice --entity-type clients", any_order=True),
    Step("configs --describe --entity-type ips", any_order=True),
    Step("configs --describe --ip 127.0.0.1"),
    Step("configs --alter --user alice --add-config producer_byte_rate=fast", fails=True),
    Step("configs --alter --user alice --delete-config consumer_byte_rate", fails=True),
    Step("configs --alter --user alice --delete-config producer_byte_rate"),
    Step("configs --alter --user-defaults --delete-config consumer_byte_rate"),
    Step("configs --alter --client reader --delete-config request_percentage"),
    Step("configs --alter --client-defaults --delete-config controller_mutation_rate"),
    Step("configs --alter --user alice --client reader --delete-config producer_byte_rate"),
    Step("configs --alter --user alice --client-defaults --delete-config consumer_byte_rate"),
    Step("configs --alter --ip 127.0.0.1 --delete-config connection_creation_rate"),
    Step("configs --alter --ip-defaults --delete-config connection_creation_rate"),
    Step("configs --describe --entity-type users"),
])  # fmt: skip

PASSWORDS = Scenario("configs", "passwords", [
    Step("configs --alter --user alice --add-config SCRAM-SHA-256=[iterations=8192,password=secret]"),
    Step("configs --alter --user alice --add-config SCRAM-SHA-512=[password=secret]"),
    Step("configs --alter --user bob --add-config SCRAM-SHA-256=[iterations=-1,password=a=b]"),
    Step("configs --describe --user alice"),
    Step("configs --describe --entity-type users", any_order=True),
    Step("configs --alter --user alice --add-config SCRAM-SHA-256=[iterations=1,password=secret]", fails=True),
    Step("configs --alter --user alice --add-config SCRAM-SHA-256=secret", fails=True),
    Step("configs --alter --user-defaults --add-config SCRAM-SHA-256=[password=secret]", fails=True),
    Step("configs --alter --user alice --add-config SCRAM-SHA-256=[password=a],producer_byte_rate=1", fails=True),
    Step("configs --alter --user alice --delete-config SCRAM-SHA-256,SCRAM-SHA-512", fails=True),
    Step("configs --alter --user alice --delete-config SCRAM-SHA-256"),
    Step("configs --alter --user alice --delete-config SCRAM-SHA-512"),
    Step("configs --alter --user alice --delete-config SCRAM-SHA-256", fails=True),
    Step("configs --alter --user bob --delete-config SCRAM-SHA-256"),
    Step("configs --describe --entity-type users"),
])  # fmt: skip

CLIENT_METRICS = Scenario("configs", "client-metrics", [
    Step("configs --alter --client-metrics slow --add-config metrics=org.apache.kafka.producer.,interval.ms=30000"),
    Step("configs --describe --client-metrics slow"),
    Step("configs --describe --client-metrics slow --all"),
    Step("configs --describe --entity-type client-metrics"),
    Step("configs --alter --client-metrics slow --delete-config metrics,interval.ms"),
    Step("configs --describe --entity-type client-metrics"),
])  # fmt: skip


@pytest.fixture(scope="module")
def apaches_stage(tmp_path_factory: pytest.TempPathFactory, apache_jars: None) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("apache")
    broker = ApacheBroker(directory / "broker")
    try:
        broker.start()
        yield Stage(broker.bootstrap, directory)
    finally:
        broker.kill()


def comparable(said: list[Said]) -> list[tuple[str, bool, str]]:
    """Where a command fails the words are each tool's own."""
    return [(one.step.command, one.failed, "" if one.failed else one.out) for one in said]


@pytest.mark.parametrize("scenario", [READING, QUOTAS, PASSWORDS, CLIENT_METRICS], ids=lambda scenario: scenario.name)
def test_both_tools_say_the_same_against_apaches_broker(scenario: Scenario, apaches_stage: Stage) -> None:
    ours = play(scenario, apaches_stage, run_ours, is_ours=True)
    theirs = play(scenario, apaches_stage, run_apaches, is_ours=False)
    assert comparable(ours) == comparable(theirs)


def test_both_tools_say_the_same_against_our_broker(tmp_path: Path) -> None:
    with our_stage(tmp_path) as stage:
        ours = play(READING, stage, run_ours, is_ours=True)
        theirs = play(READING, stage, run_apaches, is_ours=False)
    assert comparable(ours) == comparable(theirs)
