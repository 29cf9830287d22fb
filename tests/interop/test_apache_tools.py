"""Apache's own tools, and through them its Java clients, against our broker."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.brokers import BrokerProcess, sound
from tests.interop.apache_broker import JARS

COUNT = 100
CONSOLE_CONSUMER = "consumer.ConsoleConsumer"
CONSUMER_GROUPS = "consumer.group.ConsumerGroupCommand"

pytestmark = pytest.mark.usefixtures("apache_jars")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with sound(BrokerProcess(tmp_path_factory.mktemp("tools") / "data")) as process:
        yield process


def tool(name: str, broker: BrokerProcess, *arguments: str, stdin: str | None = None) -> list[str]:
    """What a tool prints, as lines; it must end well."""
    command = ["java", f"org.apache.kafka.tools.{name}", "--bootstrap-server", broker.bootstrap, *arguments]
    result = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "CLASSPATH": f"{JARS}/*"},
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


def produce(broker: BrokerProcess, topic: str) -> list[str]:
    values = [str(number) for number in range(COUNT)]
    tool("ConsoleProducer", broker, "--topic", topic, stdin="\n".join(values) + "\n")
    return values


def consume(broker: BrokerProcess, topic: str, group: str, protocol: str, count: int) -> list[str]:
    lines = tool(
        CONSOLE_CONSUMER,
        broker,
        *("--topic", topic, "--group", group, "--from-beginning", "--max-messages", str(count)),
        *("--timeout-ms", "30000", "--consumer-property", f"group.protocol={protocol}"),
    )
    return [line for line in lines if line.isdigit()]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_javas_consumers_of_both_protocols_read_in_groups_and_commit(broker: BrokerProcess, protocol: str) -> None:
    topic = group = f"by-{protocol}"
    values = produce(broker, topic)
    assert consume(broker, topic, group, protocol, COUNT) == values
    described = tool(CONSUMER_GROUPS, broker, "--describe", "--group", group)
    [row] = [line.split() for line in described if line.startswith(group)]
    assert row[:6] == [group, topic, "0", str(COUNT), str(COUNT), "0"]
    [listed] = [line.split() for line in tool(CONSUMER_GROUPS, broker, "--list", "--type") if line.startswith(group)]
    assert listed == [group, protocol.capitalize()]


def test_offsets_are_reset_and_groups_deleted_by_apaches_tool_and_move_between_protocols(broker: BrokerProcess) -> None:
    values = produce(broker, "reset")
    assert consume(broker, "reset", "reset", "consumer", COUNT) == values
    arguments = ("--reset-offsets", "--group", "reset", "--topic", "reset", "--to-offset", "40", "--execute")
    tool(CONSUMER_GROUPS, broker, *arguments)
    assert consume(broker, "reset", "reset", "classic", COUNT - 40) == values[40:]
    tool(CONSUMER_GROUPS, broker, "--delete", "--group", "reset")
    listed = tool(CONSUMER_GROUPS, broker, "--list")
    assert "reset" not in listed


def test_features_and_transactions_are_described(broker: BrokerProcess) -> None:
    features = {line.split()[1] for line in tool("FeatureCommand", broker, "describe")}
    assert features == {"group.version", "metadata.version", "transaction.version"}
    assert tool("TransactionsCommand", broker, "list")[0].split()[0] == "TransactionalId"
