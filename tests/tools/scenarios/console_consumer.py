"""What `console-consumer` prints of records, by all its flags."""

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from tests.tools.scenario import Act, File, Scenario, Stage, Step

FIRST = "console-consumer --topic people --partition 0 --offset earliest --max-messages 5"
PRINT = " --formatter-property print."
JAVA = "org.apache.kafka.common.serialization"
FORMATTERS = "org.apache.kafka.tools.consumer"
TIME_MS = 1_700_000_000_000


def people(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        # The records are old: a broker would soon delete them.
        kept = {"retention.ms": "-1"}
        admin.create_topics(
            [NewTopic(name, 1, configs=kept) for name in ("people", "people-too", "places")]
        ).raise_any()
    with Producer(stage.bootstrap) as producer:
        producer.send("people", b"Anna", key=b"a", timestamp_ms=TIME_MS)
        producer.send("people", b"Bob", timestamp_ms=TIME_MS + 1, headers={"tag": b"vip", "seat": b"7"})
        producer.send("people", None, key=b"c", timestamp_ms=TIME_MS + 2, headers={"none": None})
        producer.send("people", "Dörte".encode(), key=b"", timestamp_ms=TIME_MS + 3, headers={"": b""})
        producer.send("people", b"", timestamp_ms=TIME_MS + 4)
        producer.send("people-too", b"Eve", timestamp_ms=TIME_MS + 5)
        producer.send("places", b"Oslo", timestamp_ms=TIME_MS + 6)


VALUES = {
    "Integer": struct.pack(">i", -42),
    "Long": struct.pack(">q", 2**40),
    "Short": struct.pack(">h", 7),
    "Double": struct.pack(">d", 12345678.9),
    "Float": struct.pack(">f", 0.1),
    "Boolean": b"\1",
    "UUID": b"123E4567-e89b-12d3-a456-426614174000",
    "Bytes": b"a\\b\x00\xff",
    "ByteBuffer": b"abc",
    "String": "grün".encode(),
}


def values(stage: Stage) -> None:
    with Producer(stage.bootstrap) as producer:
        for key, value, header in TYPES:
            producer.send(f"of-{key}-{value}", VALUES[value], key=VALUES[key], headers={"h": VALUES[header]})


def transactions(stage: Stage) -> None:
    with Admin(stage.bootstrap) as admin:
        admin.create_topics([NewTopic("ledger", 1)]).raise_any()
    with (
        copying(stage, "__transaction_state", "state-records"),
        Producer(stage.bootstrap, transactional_id=f"books-{uuid4()}") as producer,
    ):
        producer.init_transactions()
        for value in (b"kept", b"dropped", b"kept too"):
            producer.begin_transaction()
            producer.send("ledger", value).result()
            if value == b"dropped":
                producer.abort_transaction()
            else:
                producer.commit_transaction()


def group(stage: Stage) -> None:
    with Producer(stage.bootstrap) as producer:
        producer.send("read", b"x").result()
    with (
        copying(stage, "__consumer_offsets", "group-records"),
        Consumer(stage.bootstrap, group_id="readers", client_id="me", auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe(["read"])
        while not consumer.poll(1.0):
            pass
        consumer.commit()


@contextmanager
def copying(stage: Stage, internal: str, copy: str) -> Iterator[None]:
    """What is appended to an internal topic meanwhile, as a topic of its own: a broker may have seen other tests."""
    partition = TopicPartition(internal, 0)
    with Consumer(stage.bootstrap) as consumer, Producer(stage.bootstrap) as producer:
        start = consumer.end_offsets([partition])[partition] if internal in consumer.list_topics() else 0
        yield
        end = consumer.end_offsets([partition])[partition]
        consumer.assign([partition])
        consumer.seek(partition, start)
        while consumer.position(partition) < end:
            for record in consumer.poll(1.0):
                producer.send(copy, record.value, key=record.key)
        producer.send(copy, b"without a key")
        producer.send(copy, b"\0\0", key=b"\0\x63of a type that is not known")


NUMBERED = [
    (r'("(?:commit|currentState)Timestamp":|TimestampMs":|"p(?:reviousP)?roducerId":)\d+', r"\1N"),
    # Epochs of leaders and ids of topics are the broker's own.
    (r'"leaderEpoch":-?\d+', '"leaderEpoch":N'),
    (r',"topicId":"[A-Za-z0-9_-]{22}"', ""),
    (r"(test|me|console-consumer)-UUID", "MEMBER"),
]


def of(key: str, value: str, header: str) -> Step:
    return Step(
        f"console-consumer --topic of-{key}-{value} --partition 0 --offset 0 --max-messages 1{PRINT}key=true"
        f"{PRINT}headers=true --key-deserializer {JAVA}.{key}Deserializer"
        f" --value-deserializer {JAVA}.{value}Deserializer"
        f" --formatter-property headers.deserializer={JAVA}.{header}Deserializer"
    )


TYPES = [
    ("Integer", "Long", "Short"),
    ("Double", "Float", "Boolean"),
    ("UUID", "Bytes", "ByteBuffer"),
    ("String", "String", "String"),
]


SCENARIOS = [
    Scenario(
        "console-consumer",
        "printing",
        [
            Act(people),
            Step(FIRST),
            Step(
                f"{FIRST}{PRINT}timestamp=true{PRINT}key=true{PRINT}offset=true{PRINT}delivery=true{PRINT}epoch=true"
                f"{PRINT}partition=true{PRINT}headers=true"
            ),
            Step(f"{FIRST}{PRINT}value=false{PRINT}key=True{PRINT}headers=maybe"),
            Step(f"{FIRST}{PRINT}value=false{PRINT}timestamp=true"),
            Step(f"{FIRST}{PRINT}value=false{PRINT}partition=true"),
            Step(f"{FIRST}{PRINT}value=false{PRINT}offset=true{PRINT}headers=true"),
            Step(f"{FIRST}{PRINT}value=false"),
            Step(
                f"{FIRST}{PRINT}key=true{PRINT}headers=true --formatter-property key.separator=' => '"
                " --formatter-property line.separator='; ' --formatter-property headers.separator='&'"
                " --formatter-property null.literal=NIL"
            ),
            File("formatter.properties", "print.key=true\nkey.separator=:\nnull.literal=-\n"),
            Step(f"{FIRST} --formatter-config {{directory}}/formatter.properties"),
            Step(f"{FIRST} --formatter-config {{directory}}/formatter.properties --formatter-property print.key=false"),
            Step(f"{FIRST} --property print.key=true"),
            Step(f"{FIRST} --formatter {FORMATTERS}.NoOpMessageFormatter"),
            Step(f"{FIRST} --formatter {FORMATTERS}.LoggingMessageFormatter{PRINT}key=true"),
            Step(f"{FIRST} --enable-systest-events"),
        ],
    ),
    Scenario(
        "console-consumer",
        "places",
        [
            Act(people),
            File("consumer.properties", "auto.offset.reset=earliest\nclient.id=from-file\n"),
            Step("console-consumer --topic people --from-beginning --max-messages 5"),
            Step("console-consumer --topic people --from-beginning --max-messages 2"),
            Step("console-consumer --topic people --from-beginning --max-messages 0"),
            Step("console-consumer --topic people --timeout-ms 500"),
            Step("console-consumer --include people.* --from-beginning --max-messages 6", any_order=True),
            Step("console-consumer --include 'places|streets' --from-beginning --max-messages 1"),
            Step("console-consumer --topic people --partition 0 --from-beginning --max-messages 5"),
            Step("console-consumer --topic people --partition 0 --offset 3 --max-messages 2"),
            Step("console-consumer --topic people --partition 0 --offset EARLIEST --max-messages 1"),
            Step("console-consumer --topic people --partition 0 --offset latest --timeout-ms 500"),
            Step("console-consumer --topic people --partition 0 --timeout-ms 500"),
            # Such a position is out of range, so that the reset decides.
            Step("console-consumer --topic people --partition 0 --offset 99 --timeout-ms 500"),
            Step("console-consumer --topic people --group first --from-beginning --max-messages 2"),
            Step("console-consumer --topic people --group first --from-beginning --max-messages 2"),
            Step("console-consumer --topic people --group first --from-beginning --max-messages 1"),
            Step("console-consumer --topic people --command-config {directory}/consumer.properties --max-messages 1"),
            Step("console-consumer --topic people --consumer.config {directory}/consumer.properties --max-messages 1"),
            Step("console-consumer --topic people --consumer-property auto.offset.reset=earliest --max-messages 1"),
            Step(
                "console-consumer --topic people --command-property group.id=new --command-property"
                " group.protocol=consumer --from-beginning --max-messages 1"
            ),
        ],
    ),
    Scenario(
        "console-consumer",
        "deserializers",
        [
            Act(values),
            *[of(*types) for types in TYPES],
            # Java prints where the array lies in its memory.
            Step(of(*TYPES[-1]).command.replace(f"{JAVA}.String", f"{JAVA}.ByteArray"), only_ours=True),
            Step(
                f"console-consumer --topic of-String-String --partition 0 --offset 0 --max-messages 1{PRINT}key=true"
                f" --key-deserializer {JAVA}.StringDeserializer"
                " --formatter-property key.deserializer.deserializer.encoding=ISO-8859-1"
            ),
            Act(
                lambda stage: _send(stage, "of-Integer", [struct.pack(">i", -42), None, b"12345", struct.pack(">i", 1)])
            ),
            Step(
                "console-consumer --topic of-Integer --partition 0 --offset 0 --max-messages 4 --skip-message-on-error"
                f" --value-deserializer {JAVA}.IntegerDeserializer"
            ),
            Step(
                "console-consumer --topic of-Integer --partition 0 --offset 0 --max-messages 4"
                f" --value-deserializer {JAVA}.IntegerDeserializer",
                fails=True,
            ),
            # Apache's tool logs an error, and prints the bytes as they are.
            Step(
                "console-consumer --topic of-Double-Float --value-deserializer no.such.Class",
                fails=True,
                only_ours=True,
            ),
        ],
    ),
    Scenario(
        "console-consumer",
        "transactions",
        [
            Act(transactions),
            Step("console-consumer --topic ledger --from-beginning --max-messages 3"),
            Step(
                "console-consumer --topic ledger --from-beginning --isolation-level read_committed --max-messages 2"
                f"{PRINT}offset=true"
            ),
            Step(
                "console-consumer --topic state-records --partition 0 --offset earliest --max-messages 6"
                f" --formatter {FORMATTERS}.TransactionLogMessageFormatter"
            ),
        ],
        masks=tuple(NUMBERED),
    ),
    Scenario(
        "console-consumer",
        "groups",
        [
            Act(group),
            Step(
                "console-consumer --topic group-records --partition 0 --offset earliest --max-messages 6"
                f" --formatter {FORMATTERS}.OffsetsMessageFormatter",
            ),
            Step(
                "console-consumer --topic group-records --partition 0 --offset earliest --max-messages 6"
                f" --formatter {FORMATTERS}.GroupMetadataMessageFormatter",
            ),
        ],
        masks=tuple(NUMBERED),
    ),
    Scenario(
        "console-consumer",
        "failures",
        [
            Step("console-consumer --from-beginning", fails=True),
            Step("console-consumer --topic a --include b", fails=True),
            Step("console-consumer --include a --partition 0", fails=True),
            Step("console-consumer --topic a --offset 3", fails=True),
            Step("console-consumer --topic a --partition 0 --offset -3", fails=True),
            Step("console-consumer --topic a --partition 0 --offset first", fails=True),
            Step("console-consumer --topic a --partition 0 --from-beginning --offset 3", fails=True),
            Step("console-consumer --topic a --partition 0 --group g", fails=True),
            Step("console-consumer --topic a --group g --command-property group.id=h", fails=True),
            Step("console-consumer --topic a --from-beginning --command-property auto.offset.reset=latest", fails=True),
            Step("console-consumer --topic a --isolation-level read_none", fails=True),
            Step("console-consumer --topic a --formatter no.such.Formatter", fails=True),
            Step("console-consumer --topic a --max-messages few", fails=True),
            Step("console-consumer --topic a --property a=b --formatter-property c=d", fails=True),
            Step("console-consumer --topic a --consumer-property a=b --command-property c=d", fails=True),
            Step("console-consumer --topic a --consumer.config x --command-config y", fails=True),
            Step("console-consumer --topic a --command-config {directory}/none", fails=True),
            Step("console-consumer --topic a --formatter-config {directory}/none", fails=True),
            Step("console-consumer --include '(' --timeout-ms 1000", fails=True),
            # Apache's tool logs an error and ends with 0, or tries without end.
            Step("console-consumer --topic 'not legal' --timeout-ms 1000", fails=True, only_ours=True),
            Step(
                "console-consumer --topic a --bootstrap-server {server} --bootstrap-server localhost:1",
                fails=True,
                only_ours=True,
            ),
        ],
    ),
]


def _send(stage: Stage, topic: str, sent: list[bytes | None]) -> None:
    with Producer(stage.bootstrap) as producer:
        for value in sent:
            producer.send(topic, value)
