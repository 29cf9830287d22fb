"""`levada groups`."""

from tests.tools.group_acts import committed, members, topics, workers
from tests.tools.scenario import File, Scenario, Step

LIST = "groups --list"

SCENARIOS = [
    Scenario("groups", "listing", [
        Step(LIST),
        topics(orders=[5, 3]),
        committed("offsets-only", {("orders", 0): 5}),
        members("readers", {}, topics=["orders"]),
        members("modern", {"group_protocol": "consumer"}, topics=["orders"]),
        workers("connectors", "connect"),
        File("client.properties", "request.timeout.ms=9000\n"),
        Step(LIST, any_order=True),
        Step(f"{LIST} --consumer --command-config {{directory}}/client.properties", any_order=True),
        Step(f"{LIST} --share"),
        Step(f"{LIST} --streams"),
        Step(f"{LIST} --group-type classic", any_order=True),
        Step(f"{LIST} --group-type Consumer"),
        Step(f"{LIST} --group-type share"),
        Step(f"{LIST} --protocol connect"),
        Step(f"{LIST} --protocol consumer", any_order=True),
        Step(f"{LIST} --protocol ''"),
        Step(f"{LIST} --protocol consumer --group-type classic"),
        Step(f"{LIST} --protocol connect --group-type consumer"),
        Step(f"{LIST} --json", only_ours=True),
        Step(f"{LIST} --json --consumer --command-property client.id=me", only_ours=True),
        committed("a-group-with-a-name-that-is-long", {("orders", 1): 2}),
        Step(LIST, any_order=True),
    ]),
    Scenario("groups", "refusing", [
        Step("groups", fails=True),
        Step("groups --consumer", fails=True),
        Step(f"{LIST} --group-type odd", fails=True),
        Step(f"{LIST} --consumer --share", fails=True),
        Step(f"{LIST} --streams --protocol consumer", fails=True),
        Step(f"{LIST} --share --group-type share", fails=True),
        Step(f"{LIST} --describe", fails=True),
        Step(f"{LIST} --zookeeper localhost:1", fails=True),
    ]),
]  # fmt: skip
