"""`levada configs`. What brokers keep is put back at the end: Apache's is used again."""

from levada import Admin
from levada.client.admin import NewTopic
from tests.tools.scenario import Act, File, Scenario, Stage, Step


def create_orders(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 1), NewTopic("payments", 1)]).raise_any()


SCENARIOS = [
    Scenario("configs", "topics", [
        Act(create_orders),
        File("more.properties", "max.message.bytes=2000\nsegment.ms = 60000\n"),
        Step("configs --describe --topic orders"),
        Step("configs --alter --topic orders --add-config 'retention.ms=1000, cleanup.policy=[compact,delete]'"),
        Step("configs --describe --topic orders"),
        Step("configs --describe --topic orders --json", only_ours=True),
        Step("configs --describe --entity-type topics --entity-name orders"),
        Step("configs --alter --topic orders --add-config-file {directory}/more.properties"
             " --delete-config retention.ms"),
        Step("configs --describe --topic orders"),
        Step("configs --alter --entity-type topics --entity-name orders --delete-config 'segment.ms,cleanup.policy'"),
        Step("configs --describe --entity-type topics", any_order=True),
        Step("configs --describe --topic orders --all"),
        Step("configs --describe --topic nothing"),
        Step("configs --describe --topic nothing --json", only_ours=True),
        Step("configs --describe --topic nothing --all", fails=True),
        Step("configs --describe --topic 'no such'", fails=True),
        Step("configs --alter --topic nothing --add-config retention.ms=1", fails=True),
        Step("configs --alter --topic orders --add-config retention.ms=soon", fails=True),
        Step("configs --alter --topic orders --add-config retention=1", fails=True),
        Step("configs --alter --topic orders --add-config retention.ms=1 --delete-config retention.ms", fails=True),
        Step("configs --describe --topic orders"),
    ]),
    Scenario("configs", "brokers", [
        File("client.properties", "request.timeout.ms=20000\n"),
        Step("configs --describe --broker 1 --command-config {directory}/client.properties"),
        Step("configs --alter --broker 1 --add-config log.cleaner.threads=2"),
        Step("configs --alter --broker-defaults --add-config log.cleaner.threads=3,log.cleaner.backoff.ms=10000"),
        Step("configs --describe --broker 1"),
        Step("configs --describe --broker-defaults"),
        Step("configs --describe --entity-type brokers --entity-default --json", only_ours=True),
        Step("configs --describe --entity-type brokers"),
        Step("configs --alter --entity-type brokers --entity-name 1 --delete-config log.cleaner.threads"),
        Step("configs --alter --entity-type brokers --entity-default"
             " --delete-config log.cleaner.threads --delete-config log.cleaner.backoff.ms"),
        Step("configs --describe --entity-type brokers"),
        Step("configs --describe --broker 77"),
        Step("configs --describe --broker one", fails=True),
        Step("configs --alter --broker 1 --add-config node.id=2", fails=True),
        Step("configs --describe --broker-logger 77"),
        Step("configs --alter --broker-logger 1 --add-config no.such.logger=INFO", fails=True),
        Step("configs --describe --entity-type broker-loggers", fails=True),
    ]),
    Scenario("configs", "groups", [
        Step("configs --describe --group readers"),
        Step("configs --alter --group readers --add-config consumer.session.timeout.ms=50000"),
        Step("configs --describe --group readers"),
        Step("configs --describe --entity-type groups --entity-name readers --json", only_ours=True),
        Step("configs --describe --entity-type groups"),
        Step("configs --describe --group readers --all"),
        Step("configs --alter --group readers --add-config consumer.session.timeout.ms=1", fails=True),
        Step("configs --alter --group readers --delete-config consumer.session.timeout.ms"),
        Step("configs --describe --group readers"),
        Step("configs --describe --client-metrics slow"),
        Step("configs --describe --entity-type client-metrics"),
    ]),
    Scenario("configs", "refusals", [
        Step("configs --topic orders", fails=True),
        Step("configs --describe", fails=True),
        Step("configs --describe --alter --topic orders", fails=True),
        Step("configs --describe --topic orders --add-config retention.ms=1", fails=True),
        Step("configs --describe --topic orders --group readers", fails=True),
        Step("configs --describe --topic orders --entity-type topics", fails=True),
        Step("configs --describe --entity-type things", fails=True),
        Step("configs --alter --topic orders", fails=True),
        Step("configs --alter --entity-type topics --add-config retention.ms=1", fails=True),
        Step("configs --alter --topic orders --add-config retention.ms", fails=True),
        Step("configs --alter --topic orders --add-config cleanup.policy=compact,delete", fails=True),
        Step("configs --alter --topic orders --add-config 'retention ms=1'", fails=True),
        Step("configs --alter --topic orders --add-config-file {directory}/absent.properties", fails=True),
        Step("configs --alter --user alice --add-config retention.ms=1", fails=True),
        Step("configs --alter --client reader --add-config SCRAM-SHA-256=[password=x]", fails=True),
        Step("configs --alter --ip no.such.host.invalid --add-config connection_creation_rate=1", fails=True),
        Step("configs --zookeeper localhost:1 --describe --topic orders", fails=True),
        Step("configs --bootstrap-controller {server} --bootstrap-server {server} --describe --topic a", fails=True),
    ]),
]  # fmt: skip
