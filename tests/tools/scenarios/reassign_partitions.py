"""`levada reassign-partitions`."""

from levada import Admin
from levada.client.admin import ConfigResource
from tests.tools.logs import logs_are_made
from tests.tools.scenario import Act, File, Scenario, Stage, Step
from tests.tools.stages import wait_until

PLAN = '{"version":1,"partitions":[{"topic":"three","partition":0,"replicas":[1],"log_dirs":["any"]}%s]}'
ONE = PLAN % ""
ALL = PLAN % ',{"topic":"three","partition":1,"replicas":[1]},{"topic":"three","partition":10,"replicas":[1]}'

AT = "--reassignment-json-file {directory}"

TOPIC_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
BROKER_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


def throttles(stage: Stage) -> tuple[list[str | None], list[str | None]]:
    topic, broker = ConfigResource.topic("three"), ConfigResource.broker(1)
    with Admin(stage.bootstrap) as admin:
        found = admin.describe_configs([topic, broker])
        return (
            [found[topic][key].value for key in TOPIC_KEYS],
            [found[broker][key].value for key in BROKER_KEYS if key in found[broker]],
        )


def throttles_are_set(stage: Stage) -> None:
    wait_until(lambda: throttles(stage) == (["0:1,10:1,1:1", ""], ["5000", "5000"]))


def throttles_are_gone(stage: Stage) -> None:
    none = str(2**63 - 1)
    wait_until(lambda: throttles(stage) in ((["", ""], []), (["", ""], [none] * 2)))


SCENARIOS = [
    Scenario("reassign-partitions", "moving", [
        File("topics.json", '{"topics":[{"topic":"three"}],"version":1}'),
        File("one.json", ONE),
        File("all.json", ALL),
        File("unknown.json", '{"partitions":[{"topic":"three","partition":12,"replicas":[1]}]}'),
        File("client.properties", "request.timeout.ms=9000\n"),
        Step("topics --create --topic three --partitions 11"),
        logs_are_made("three", 11),
        Step("reassign-partitions --list"),
        Step("reassign-partitions --list --json", only_ours=True),
        Step("reassign-partitions --generate --topics-to-move-json-file {directory}/topics.json --broker-list 1"),
        Step("reassign-partitions --generate --topics-to-move-json-file {directory}/topics.json --broker-list 1,7"
             " --disable-rack-aware"),
        Step(f"reassign-partitions --execute {AT}/one.json --command-config {{directory}}/client.properties"),
        Step(f"reassign-partitions --execute {AT}/all.json --additional --timeout 9000"
             " --disallow-replication-factor-change"),
        Step(f"reassign-partitions --verify {AT}/one.json"),
        Step(f"reassign-partitions --verify {AT}/all.json --preserve-throttles"),
        Step(f"reassign-partitions --verify {AT}/all.json --json", only_ours=True),
        Step(f"reassign-partitions --verify {AT}/unknown.json"),
        Step(f"reassign-partitions --cancel {AT}/one.json --timeout 100"),
        Step(f"reassign-partitions --cancel {AT}/all.json --preserve-throttles"),
    ]),
    Scenario("reassign-partitions", "throttling", [
        File("all.json", ALL),
        Step("topics --create --topic three --partitions 11"),
        logs_are_made("three", 11),
        Step(f"reassign-partitions --execute {AT}/all.json --throttle 5000 --replica-alter-log-dirs-throttle 3000"),
        Act(throttles_are_set),
        Step(f"reassign-partitions --execute {AT}/all.json --throttle -1"),
        Step(f"reassign-partitions --execute {AT}/all.json --throttle 0 --additional"),
        Step(f"reassign-partitions --verify {AT}/all.json"),
        Act(throttles_are_gone),
    ]),
    Scenario("reassign-partitions", "refusing", [
        File("broken.json", '{"version":1,"partitions":['),
        File("list.json", "[]"),
        File("empty.json", '{"version":1,"partitions":[]}'),
        File("newer.json", '{"version":2,"partitions":[]}'),
        File("replicas.json", '{"partitions":[{"topic":"three","partition":0,"replicas":[]}]}'),
        File("texts.json", '{"partitions":[{"topic":"three","partition":0,"replicas":["1"]}]}'),
        File("sizes.json", '{"partitions":[{"topic":"three","partition":0,"replicas":[1],"log_dirs":["any","any"]}]}'),
        File("twice.json", PLAN % ',{"topic":"three","partition":0,"replicas":[1]}'),
        File("brokers.json", '{"partitions":[{"topic":"three","partition":0,"replicas":[1,1]}]}'),
        File("stranger.json", '{"partitions":[{"topic":"three","partition":0,"replicas":[77]}]}'),
        File("unknown.json", '{"partitions":[{"topic":"three","partition":12,"replicas":[1]}]}'),
        File("nothing.json", '{"partitions":[{"topic":"nothing","partition":0,"replicas":[1]}]}'),
        File("topics.json", '{"topics":[{"topic":"three"}],"version":1}'),
        File("topics-twice.json", '{"topics":[{"topic":"three"},{"topic":"three"}]}'),
        File("no-topics.json", '{"topics":[{"topic":"nothing"}]}'),
        Step("topics --create --topic three --partitions 3"),
        *(
            Step(f"reassign-partitions --execute {AT}/{name}.json", fails=True)
            for name in ("broken", "list", "empty", "newer", "replicas", "texts", "sizes", "twice", "brokers",
                         "stranger", "unknown", "nothing", "no-such-file")
        ),
        Step(f"reassign-partitions --verify {AT}/nothing.json", fails=True),
        Step(f"reassign-partitions --cancel {AT}/newer.json", fails=True),
        *(
            Step(f"reassign-partitions --generate --topics-to-move-json-file {{directory}}/{name}.json --broker-list 1",
                 fails=True)
            for name in ("broken", "topics-twice", "no-topics")
        ),
        Step("reassign-partitions --generate --topics-to-move-json-file {directory}/topics.json --broker-list 77",
             fails=True),
        Step("reassign-partitions --generate --topics-to-move-json-file {directory}/topics.json --broker-list 1,1",
             fails=True),
        Step("reassign-partitions --generate --topics-to-move-json-file {directory}/topics.json", fails=True),
        Step("reassign-partitions", fails=True),
        Step("reassign-partitions --list --verify", fails=True),
        Step("reassign-partitions --execute", fails=True),
        Step("reassign-partitions --list --throttle 5", fails=True),
        Step(f"reassign-partitions --verify {AT}/empty.json --additional", fails=True),
        Step("reassign-partitions --list --zookeeper localhost:1", fails=True),
    ]),
]  # fmt: skip
