"""`levada delete-records`."""

import json

from levada import Admin, Producer
from levada.client.admin import NewTopic
from tests.tools.scenario import Act, File, Scenario, Stage, Step

ERROR = (r"(\terror: ).*", r"\1TEXT")
"""Kafka's tool prints the name of a Java class there."""


def produce(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        admin.create_topics([NewTopic("orders", 3)]).raise_any()
    with Producer(stage.bootstrap) as producer:
        for partition in range(3):
            for _ in range(5):
                producer.send("orders", b"", partition=partition).result()


def offsets(*entries: tuple[str, int, int], **more: int) -> str:
    return json.dumps({
        "partitions": [{"topic": topic, "partition": index, "offset": offset} for topic, index, offset in entries],
        **more,
    })  # fmt: skip


SCENARIOS = [
    Scenario("delete-records", "deleting", [
        Act(produce),
        # A topic that is not there is asked for until the time is up.
        File("client.properties", "default.api.timeout.ms=2000\nrequest.timeout.ms=2000\n"),
        File("some.json", offsets(("orders", 0, 3), ("orders", 1, -1), version=1)),
        File("none.json", offsets()),
        File("wrong.json", offsets(("orders", 0, 1), ("orders", 1, 9), ("orders", 2, 4), ("nothing", 0, 1))),
        Step("delete-records --offset-json-file {directory}/some.json", any_order=True),
        Step("delete-records --offset-json-file {directory}/none.json"),
        Step("delete-records --offset-json-file {directory}/wrong.json --command-config {directory}/client.properties",
             any_order=True, masks=(ERROR,)),
    ]),
    Scenario("delete-records", "refusals", [
        File("torn.json", '{"partitions": [{"topic": "orders", '),
        File("empty.json", ""),
        File("list.json", "[]"),
        File("nothing.json", "{}"),
        File("later.json", offsets(("orders", 0, 1), version=2)),
        File("twice.json", offsets(("orders", 0, 1), ("orders", 0, 2))),
        File("text.json", '{"partitions": [{"topic": "orders", "partition": 0, "offset": "1"}]}'),
        File("nameless.json", '{"partitions": [{"partition": 0, "offset": 1}]}'),
        Step("delete-records", fails=True),
        Step("delete-records --offset-json-file {directory}/absent.json", fails=True),
        Step("delete-records --offset-json-file {directory}/torn.json", fails=True),
        Step("delete-records --offset-json-file {directory}/empty.json", fails=True),
        Step("delete-records --offset-json-file {directory}/list.json", fails=True),
        Step("delete-records --offset-json-file {directory}/nothing.json", fails=True),
        Step("delete-records --offset-json-file {directory}/later.json", fails=True),
        Step("delete-records --offset-json-file {directory}/twice.json", fails=True),
        Step("delete-records --offset-json-file {directory}/text.json", fails=True),
        Step("delete-records --offset-json-file {directory}/nameless.json", fails=True),
    ]),
]  # fmt: skip
