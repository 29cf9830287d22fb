"""`levada broker-api-versions`."""

from tests.tools.scenario import File, Scenario, Step

SCENARIOS = [
    Scenario("broker-api-versions", "describing", [
        Step("broker-api-versions"),
        File("client.properties", "request.timeout.ms=9000\n"),
        Step("broker-api-versions --command-config {directory}/client.properties"),
        Step("broker-api-versions --json", only_ours=True, masks=((r'"port": \d+', '"port": PORT'),)),
    ]),
    Scenario("broker-api-versions", "refusing", [
        Step("broker-api-versions --servers {server}", fails=True),
        Step("broker-api-versions --zookeeper localhost:1", fails=True),
        Step("broker-api-versions --command-config {directory}/nothing.properties", fails=True),
    ]),
]  # fmt: skip
