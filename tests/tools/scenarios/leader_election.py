"""`levada leader-election`."""

from tests.tools.scenario import File, Scenario, Step

SCENARIOS = [
    Scenario("leader-election", "electing", [
        File("client.properties", "request.timeout.ms=9000\n"),
        File("one.json", '{"partitions": [{"topic": "orders", "partition": 1}]}'),
        File("none.json", '{"partitions": []}'),
        Step("topics --create --topic orders --partitions 2"),
        Step("leader-election --election-type preferred --topic orders --partition 0"),
        Step("leader-election --election-type UNCLEAN --topic orders --partition 1"),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/one.json"),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/none.json"),
        Step("leader-election --election-type preferred --all-topic-partitions"),
        Step("leader-election --election-type unclean --all-topic-partitions"),
        Step("leader-election --election-type preferred --topic orders --partition 0"
             " --admin.config {directory}/client.properties"),
        Step("leader-election --election-type preferred --topic orders --partition 0"
             " --command-config {directory}/client.properties"),
        Step("leader-election --election-type preferred --topic orders --partition 0 --json", only_ours=True),
        Step("leader-election --election-type preferred --topic orders --partition 7", fails=True),
        Step("leader-election --election-type preferred --topic nothing --partition 0", fails=True),
        Step("leader-election --election-type preferred --topic nothing --partition 0 --json", fails=True,
             only_ours=True),
    ]),
    Scenario("leader-election", "refusing", [
        File("twice.json", '{"partitions": [{"topic": "a", "partition": 1}, {"topic": "a", "partition": 1}]}'),
        File("nameless.json", '{"partitions": [{"partition": 1}]}'),
        File("numbers.json", '{"partitions": [{"topic": "a", "partition": "1"}]}'),
        File("empty.json", "{}"),
        File("broken.json", '{"partitions": ['),
        Step("leader-election --topic orders --partition 0", fails=True),
        Step("leader-election --election-type fair --topic orders --partition 0", fails=True),
        Step("leader-election --election-type preferred", fails=True),
        Step("leader-election --election-type preferred --topic orders", fails=True),
        Step("leader-election --election-type preferred --all-topic-partitions --partition 0", fails=True),
        Step("leader-election --election-type preferred --all-topic-partitions --topic orders --partition 0",
             fails=True),
        Step("leader-election --election-type preferred --topic orders --partition 0 --admin.config a"
             " --command-config b", fails=True),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/twice.json", fails=True),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/nameless.json", fails=True),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/numbers.json", fails=True),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/empty.json", fails=True),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/broken.json", fails=True),
        Step("leader-election --election-type preferred --path-to-json-file {directory}/nothing.json", fails=True),
        Step("leader-election --zookeeper localhost:1", fails=True),
    ]),
]  # fmt: skip
