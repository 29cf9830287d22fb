"""`levada topics`."""

from levada import Admin
from tests.tools.scenario import Act, File, Scenario, Stage, Step

NO_SUCH_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
ZERO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def commit_an_offset(stage: Stage) -> None:
    """Brings the brokers' own topic of offsets into being."""
    from levada.client.types import TopicPartition

    with Admin(stage.bootstrap) as admin:
        admin.alter_group_offsets("readers", {TopicPartition("orders", 0): 0}).raise_any()


SCENARIOS = [
    Scenario("topics", "making", [
        Step("topics --list"),
        Step("topics --list --json", only_ours=True),
        Step("topics --create --topic orders --partitions 3 --replication-factor 1"),
        Step("topics --create --topic orders --partitions 3", fails=True),
        Step("topics --create --topic orders --partitions 3 --if-not-exists"),
        Step("topics --create --topic pay_ments.old --partitions 1 --config retention.ms=86400000"
             " --config 'cleanup.policy = compact'"),
        Step("topics --create --topic placed --replica-assignment 1,1"),
        Step("topics --create --topic defaults"),
        Step("topics --list"),
        Step("topics --list --topic 'orders,pl.*'"),
        Step("topics --list --topic nothing"),
        Step("topics --describe", any_order=True),
        Step("topics --describe --topic placed"),
        Step("topics --describe --topic 'orders|placed' --json", only_ours=True),
        Step("topics --describe --topic orders --partition-size-limit-per-response 1"),
        Step("topics --describe --topics-with-overrides", any_order=True),
        Step("topics --describe --topics-with-overrides --json", only_ours=True),
        Step("topics --list --json", only_ours=True),
    ]),
    Scenario("topics", "changing", [
        Step("topics --create --topic orders --partitions 1"),
        Step("topics --create --topic orders-2 --partitions 1"),
        Step("topics --alter --topic orders --partitions 3"),
        Step("topics --alter --topic orders --partitions 2", fails=True),
        Step("topics --alter --topic 'orders-.*' --partitions 2 --delete-config retention.ms"),
        Step("topics --alter --topic orders --partitions 5 --replica-assignment 1,1,1,1,1"),
        Step("topics --alter --topic nothing --partitions 2", fails=True),
        Step("topics --alter --topic nothing --partitions 2 --if-exists"),
        Step("topics --describe", any_order=True),
        Step("topics --delete --topic nothing", fails=True),
        Step("topics --delete --topic order", fails=True),
        Step("topics --delete --topic nothing --if-exists"),
        Step("topics --delete --topic 'orders.*'"),
        Step("topics --list"),
    ]),
    Scenario("topics", "reports", [
        Step("topics --create --topic short --partitions 2 --config min.insync.replicas=2"),
        Step("topics --create --topic orders --partitions 1"),
        Step("topics --describe --under-replicated-partitions", any_order=True),
        Step("topics --describe --unavailable-partitions"),
        Step("topics --describe --under-min-isr-partitions", any_order=True),
        Step("topics --describe --at-min-isr-partitions", any_order=True),
        Step("topics --describe --at-min-isr-partitions --under-min-isr-partitions", any_order=True),
        Step("topics --describe --under-min-isr-partitions --json", only_ours=True),
        Step("topics --describe --at-min-isr-partitions --topics-with-overrides", fails=True),
        Step("topics --describe --topic nothing", fails=True),
        Step("topics --describe --topic nothing --if-exists"),
        Step("topics --describe --if-exists", fails=True),
        Step(f"topics --describe --topic-id {NO_SUCH_ID}", fails=True),
        Step(f"topics --describe --topic-id {NO_SUCH_ID} --if-exists"),
        Step(f"topics --describe --topic orders --topic-id {NO_SUCH_ID} --if-exists"),
        Step(f"topics --describe --topic orders --topic-id {ZERO_ID}"),
    ]),
    Scenario("topics", "internal", [
        Step("topics --create --topic orders --partitions 1"),
        Act(commit_an_offset),
        Step("topics --list"),
        Step("topics --list --exclude-internal"),
        Step("topics --describe --exclude-internal", any_order=True),
        Step("topics --describe --topic __consumer_offsets --exclude-internal", fails=True),
    ]),
    Scenario("topics", "refusals", [
        File("client.properties", "request.timeout.ms=20000\ndefault.api.timeout.ms=30000\n"),
        File("torn.properties", "request.timeout.ms=soon\n"),
        Step("topics --list --command-config {directory}/client.properties"),
        Step("topics --list --command-property request.timeout.ms=20000", only_ours=True),
        Step("topics --list --command-config {directory}/absent.properties", fails=True),
        Step("topics --list --command-config {directory}/torn.properties", fails=True),
        Step("topics --zookeeper localhost:1 --list", fails=True),
        Step("topics", fails=True),
        Step("topics --list --describe", fails=True),
        Step("topics --create", fails=True),
        Step("topics --alter --topic orders --partitions 2 --config retention.ms=1", fails=True),
        Step("topics --create --topic orders --partitions 0", fails=True),
        Step("topics --create --topic orders --replication-factor 2", fails=True),
        Step("topics --create --topic orders --replica-assignment 1:1", fails=True),
        Step("topics --create --topic orders --replica-assignment 77", fails=True),
        Step("topics --create --topic orders --config retention.ms=", fails=True),
        Step("topics --create --topic orders --config retention.ms=soon", fails=True),
        Step("topics --create --topic orders --config retention=1", fails=True),
        Step("topics --create --topic 'or ders'", fails=True),
        Step("topics --describe --topic-id short", fails=True),
        Step("topics --list --topic '('", fails=True),
        Step("topics --lst", fails=True),
        Step("topics --list"),
    ]),
]  # fmt: skip
