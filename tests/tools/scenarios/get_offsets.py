"""`levada get-offsets`."""

from levada import Admin, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from tests.tools.scenario import Act, File, Scenario, Stage, Step

RECORDS = {("orders", 0): 5, ("orders", 1): 3, ("orders", 10): 2, ("payments", 0): 4}
FIRST_MS = 1_700_000_000_000


def produce(stage: Stage) -> None:
    """Records that are a second apart; the third of orders-0 is the newest, and its first two are deleted."""
    with Admin(stage.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 11), NewTopic("payments", 2)]).raise_any()
        with Producer(stage.bootstrap) as producer:
            for (topic, partition), count in RECORDS.items():
                for index in range(count):
                    late_ms = 60_000 if index == 2 else 0
                    producer.send(
                        topic, b"", partition=partition, timestamp_ms=FIRST_MS + index * 1_000 + late_ms
                    ).result()
        admin.delete_records({TopicPartition("orders", 0): 2}).raise_any()
        admin.alter_group_offsets("readers", {TopicPartition("orders", 0): 2}).raise_any()


COMMITS = (r"(__consumer_offsets:0:)\d+", r"\1N")
"""On a broker that others used there are more."""

SCENARIOS = [
    Scenario("get-offsets", "places", [
        Step("get-offsets --topic orders", fails=True),
        Act(produce),
        Step("get-offsets --exclude-internal-topics"),
        Step("get-offsets --topic __c.*", masks=(COMMITS,)),
        Step("get-offsets --topic __.* --exclude-internal-topics", fails=True),
        Step("get-offsets --topic orders --time latest"),
        Step("get-offsets --topic orders --time -1 --json", only_ours=True),
        Step("get-offsets --topic orders --time earliest"),
        Step("get-offsets --topic orders --time=-2"),
        Step("get-offsets --topic orders --time max-timestamp"),
        Step("get-offsets --topic orders --time earliest-local"),
        Step("get-offsets --topic orders --time latest-tiered"),
        Step("get-offsets --topic orders --time earliest-pending-upload"),
        Step(f"get-offsets --topic orders --time {FIRST_MS + 1_000}"),
        Step("get-offsets --topic orders --time 0"),
        Step("get-offsets --topic orders --time 9223372036854775807"),
        Step("get-offsets --topic orders --time yesterday", fails=True),
    ]),
    Scenario("get-offsets", "choices", [
        File("client.properties", "request.timeout.ms=20000\n"),
        Act(produce),
        Step("get-offsets --topic 'pay.*,nothing' --command-config {directory}/client.properties"),
        Step("get-offsets --topic orders --partitions 0,10"),
        Step("get-offsets --topic orders --partitions 1,"),
        Step("get-offsets --topic orders --partitions ''"),
        Step("get-offsets --topic orders --partitions 77", fails=True),
        Step("get-offsets --topic orders --partitions one", fails=True),
        Step("get-offsets --topic nothing", fails=True),
        Step("get-offsets --topic '('", fails=True),
        Step("get-offsets --topic-partitions orders:1,payments"),
        Step("get-offsets --topic-partitions orders:8-,payments:-1"),
        Step("get-offsets --topic-partitions orders:1-3,"),
        Step("get-offsets --topic-partitions 'orders,:1' --exclude-internal-topics"),
        Step("get-offsets --topic-partitions orders:"),
        Step("get-offsets --topic-partitions orders:3-1", fails=True),
        Step("get-offsets --topic-partitions orders:one", fails=True),
        Step("get-offsets --topic-partitions orders --topic orders", fails=True),
        Step("get-offsets --topic-partitions orders --partitions 0", fails=True),
        Step("get-offsets --topic orders --broker-list {server}", fails=True),
        Step("get-offsets --offsets 1 --topic orders", fails=True),
    ]),
]  # fmt: skip
