"""`levada cluster`."""

from tests.tools.scenario import File, Scenario, Step

CLUSTER_ID = ((r'(Cluster ID: |"cluster_id": ")[A-Za-z0-9_-]{22}', r"\1ID"),)
PORT = ((r"(localhost )\d+( +)", r"\1PORT "), (r'"port": \d+', '"port": PORT'))

SCENARIOS = [
    Scenario("cluster", "describing", [
        File("client.properties", "request.timeout.ms=9000\n"),
        Step("cluster cluster-id"),
        Step("cluster cluster-id -b {server} -c {directory}/client.properties"),
        Step("cluster cluster-id --config {directory}/client.properties"),
        Step("cluster cluster-id --json", only_ours=True),
        Step("cluster list-endpoints"),
        Step("cluster list-endpoints --include-fenced-brokers"),
        Step("cluster list-endpoints --json", only_ours=True),
    ], masks=CLUSTER_ID + PORT),
    Scenario("cluster", "refusing", [
        Step("cluster cluster-number", fails=True),
        Step("cluster cluster-id --id 1", fails=True),
        Step("cluster cluster-id --config {directory}/a --command-config {directory}/b", fails=True),
        Step("cluster unregister --id 77", fails=True),
        Step("cluster unregister -i one", fails=True),
        Step("cluster unregister", fails=True),
        Step("cluster list-endpoints --bootstrap-controller {server} --include-fenced-brokers", fails=True),
    ]),
]  # fmt: skip
