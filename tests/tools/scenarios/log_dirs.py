"""`levada log-dirs`."""

from levada import Producer
from tests.tools.logs import logs_are_made
from tests.tools.scenario import Act, Scenario, Stage, Step

NO_INTERNAL_TOPICS = ((r'\{"partition":"__[^}]*\},?', ""), (r",\]", "]"))
"""Apache's broker keeps its own from scenario to scenario, and partitions have no order in the output."""

SPACE = ((r'(total|usable)_bytes": \d+', r'\1_bytes": BYTES'),)


def produce(stage: Stage) -> None:
    with Producer(stage.bootstrap) as producer:
        for number in range(3):
            producer.send("orders", b"a value", partition=0, timestamp_ms=1_000 + number).result(30)


SCENARIOS = [
    Scenario("log-dirs", "describing", [
        Step("topics --create --topic orders --partitions 1"),
        logs_are_made("orders", 1),
        Step("log-dirs --describe", masks=NO_INTERNAL_TOPICS),
        Act(produce),
        Step("log-dirs --describe --topic-list orders"),
        Step("log-dirs --describe --topic-list orders,nothing --broker-list 1"),
        Step("log-dirs --describe --topic-list nothing --broker-list ,1,"),
        Step("log-dirs --describe --topic-list orders --json", only_ours=True, masks=SPACE),
    ]),
    Scenario("log-dirs", "refusing", [
        Step("log-dirs --describe --broker-list 1,7,8", fails=True),
        Step("log-dirs --describe --broker-list one", fails=True),
        Step("log-dirs", fails=True),
        Step("log-dirs --describe --topics orders", fails=True),
        Step("log-dirs --describe --zookeeper localhost:1", fails=True),
        Step("log-dirs --describe --command-config {directory}/nothing.properties", fails=True),
    ]),
]  # fmt: skip
