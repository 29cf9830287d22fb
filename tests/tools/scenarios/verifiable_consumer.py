"""What `verifiable-consumer` says about its records, partitions and commits."""

from levada import Admin, Producer
from levada.client.admin import NewTopic
from tests.tools.scenario import Act, File, Scenario, Stage, Step


def fill(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        admin.create_topics([NewTopic("read", 1)]).raise_any()
    with Producer(stage.bootstrap) as producer:
        producer.send_many("read", [b"one", b"two", b"three"], keys=[b"a", None, b"c"]).result()


def remove_static(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        admin.remove_members_from_group("static").raise_any()


READ = "verifiable-consumer --topic read --max-messages 3"

SCENARIOS = [
    Scenario(
        "verifiable-consumer",
        "events",
        [
            Act(fill),
            File("consumer.properties", "client.id=me\n"),
            Step(f"{READ} --group-id a"),
            Step(f"{READ} --group-id b --verbose"),
            Step(f"{READ} --group-id c --enable-autocommit --reset-policy earliest --session-timeout 10000"),
            Step(f"{READ} --group-id d --group-protocol consumer --group-remote-assignor range"),
            Step(f"{READ} --group-id e --group-protocol CONSUMER"),
            Step(f"{READ} --group-id static --group-instance-id me"),
            # A static member stays in the group until its session ends.
            Act(remove_static),
            Step(f"{READ} --group-id f --assignment-strategy org.apache.kafka.clients.consumer.RoundRobinAssignor"),
            Step(f"{READ} --group-id g --command-config {{directory}}/consumer.properties"),
            Step(f"{READ} --group-id h --consumer.config {{directory}}/consumer.properties"),
            Step("verifiable-consumer --topic read --group-id i --max-messages 0"),
        ],
        masks=((r'"timestamp":\d+', '"timestamp":N'),),
    ),
    Scenario(
        "verifiable-consumer",
        "failures",
        [
            Step("verifiable-consumer --topic read", fails=True),
            Step("verifiable-consumer --group-id a", fails=True),
            Step(f"{READ} --group-id a --session-timeout x", fails=True),
            Step(f"{READ} --group-id a --reset-policy often", fails=True),
            Step(f"{READ} --group-id a --group-protocol other", fails=True),
            Step(f"{READ} --group-id a --assignment-strategy no.such.Class", fails=True),
            Step(f"{READ} --group-id a --command-config {{directory}}/none", fails=True),
            Step(f"{READ} --group-id a --command-config x --consumer.config y", fails=True),
            # Apache's tool logs an error and ends with 0.
            Step(
                "verifiable-consumer --topic 'not legal' --group-id a",
                fails=True,
                only_ours=True,
                masks=((r'"timestamp":\d+', '"timestamp":N'),),
            ),
        ],
    ),
]
