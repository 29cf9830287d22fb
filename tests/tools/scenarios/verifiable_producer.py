"""What `verifiable-producer` says about each record."""

from levada import Admin
from levada.client.admin import NewTopic
from tests.tools.scenario import Act, File, Scenario, Stage, Step


def create(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        # Some of the records are old: a broker would soon delete them.
        admin.create_topics([NewTopic("sent", 1, configs={"retention.ms": "-1"})]).raise_any()


SENT = "verifiable-producer --topic sent --max-messages 3"

SCENARIOS = [
    Scenario(
        "verifiable-producer",
        "events",
        [
            Act(create),
            File("producer.properties", "linger.ms=1\nclient.id=me\n"),
            Step(SENT),
            Step(f"{SENT} --acks 1 --throughput 100"),
            Step(f"{SENT} --acks 0"),
            Step(f"{SENT} --value-prefix 7 --repeating-keys 2"),
            Step(f"{SENT} --message-create-time 1700000000000"),
            Step("verifiable-producer --topic sent --max-messages 0"),
            Step(f"{SENT} --command-config {{directory}}/producer.properties"),
            Step(f"{SENT} --producer.config {{directory}}/producer.properties"),
            Step(
                "console-consumer --topic sent --partition 0 --offset 9 --max-messages 6"
                " --formatter-property print.key=true"
            ),
            # Java's words about it are Java's own.
            Step(
                "verifiable-producer --topic 'not legal' --max-messages 1",
                masks=((r'"message":".*"}', '"message":MESSAGE}'),),
            ),
        ],
        masks=((r'"(timestamp|avg_throughput)":[\d.E-]+', r'"\1":N'),),
    ),
    Scenario(
        "verifiable-producer",
        "failures",
        [
            Step("verifiable-producer --max-messages 1", fails=True),
            Step(f"{SENT} --acks 2", fails=True),
            Step(f"{SENT} --throughput fast", fails=True),
            Step(f"{SENT} --value-prefix x", fails=True),
            Step(f"{SENT} --command-config {{directory}}/none", fails=True),
            Step(f"{SENT} --command-config x --producer.config y", fails=True),
        ],
    ),
]
