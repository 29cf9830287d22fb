"""`levada replica-verification`, as far as it ends by itself: what it prints while it runs is in its own tests."""

from tests.tools.scenario import Scenario, Step

AT = "replica-verification --broker-list {server}"

SCENARIOS = [
    Scenario("replica-verification", "refusing", [
        Step(f"{AT} --topics-include nothing", fails=True),
        Step(f"{AT} --topics-include 'nothing('", fails=True),
        Step(f"{AT} --fetch-size many", fails=True),
        Step(f"{AT} --max-wait-ms soon", fails=True),
        Step(f"{AT} --report-interval-ms often", fails=True),
        Step(f"{AT} --time yesterday", fails=True),
        Step(f"{AT} --time -7", fails=True, only_ours=True),
        Step(f"{AT} --zookeeper localhost:1", fails=True),
    ]),
]  # fmt: skip
