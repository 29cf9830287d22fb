"""What `console-producer` makes of lines, as `console-consumer` shows it."""

from levada import Admin
from levada.client.admin import NewTopic
from tests.tools.scenario import Act, File, Scenario, Stage, Step

ALL = "console-consumer --partition 0 --offset earliest --timeout-ms 4000"
FULL = (
    " --formatter-property print.key=true --formatter-property print.headers=true"
    " --formatter-property null.literal=NULL --formatter-property key.separator=|"
)
OFFSETS = " --formatter-property print.offset=true"
KEYED = "console-producer --topic keyed --reader-property parse.key=true"


def create(*topics: str) -> Act:
    def do(stage: Stage) -> None:
        with Admin(stage.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, 1) for topic in topics]).raise_any()

    return Act(do)


def shown(topic: str, count: int, more: str = "") -> Step:
    return Step(f"{ALL} --topic {topic} --max-messages {count}{more}")


SCENARIOS = [
    Scenario(
        "console-producer",
        "lines",
        [
            create("lines", "flags"),
            Step("console-producer --topic lines", stdin="one\n\ntwo words\r\nthree\rfour\nzwölf\n and the last"),
            Step("console-producer --topic lines"),
            shown("lines", 7, OFFSETS),
            Step("console-producer --topic lines --sync", stdin="in step\nand step\n"),
            shown("lines", 9, OFFSETS),
            Step(
                "console-producer --topic flags --compression-codec zstd --batch-size 1000 --message-send-max-retries 5"
                " --retry-backoff-ms 50 --timeout 10 --request-required-acks all --request-timeout-ms 2000"
                " --metadata-expiry-ms 60000 --max-block-ms 5000 --max-memory-bytes 1000000 --socket-buffer-size 50000"
                " --line-reader org.apache.kafka.tools.LineMessageReader --command-property client.id=me",
                stdin="with flags\n",
            ),
            Step("console-producer --topic flags --compression-codec", stdin="with gzip\n"),
            Step("console-producer --topic flags --request-required-acks 0", stdin="unheard\n"),
            shown("flags", 3),
        ],
    ),
    Scenario(
        "console-producer",
        "fields",
        [
            create("keyed", "headed"),
            Step(KEYED, stdin="k\tv\nk\t\n\tv\na\tb\tc\n"),
            Step(f"{KEYED} --reader-property key.separator==>", stdin="k=>v\n=>\n"),
            Step(f"{KEYED} --reader-property ignore.error=true", stdin="no key\n"),
            Step(f"{KEYED} --reader-property null.marker=NIL", stdin="NIL\tv\nk\tNIL\nNIL\tNIL\n"),
            Step("console-producer --topic keyed --reader-property null.marker=NIL", stdin="NIL\nnot NIL\n"),
            shown("keyed", 12, FULL),
            Step(
                "console-producer --topic headed --reader-property parse.headers=true",
                stdin="a:1\tv\na:1,b:2\tv\na:1,a:\tv\n:\tv\n",
            ),
            Step(
                "console-producer --topic headed --reader-property parse.headers=TRUE --reader-property parse.key=true",
                stdin="a:1,b:2:3,\tkey\tvalue\nb:x\t\t\n",
            ),
            Step(
                "console-producer --topic headed --reader-property parse.headers=true --reader-property parse.key=true"
                " --reader-property headers.delimiter=! --reader-property headers.separator=; --reader-property"
                " headers.key.separator== --reader-property key.separator=? --reader-property null.marker=~",
                stdin="a=1;b=~!key?value\n~!~?~\n",
            ),
            Step(
                "console-producer --topic headed --reader-property parse.headers=true --reader-property parse.key=true"
                " --reader-property ignore.error=true",
                stdin="nothing of it\na\tb\na,b:1\tk\tv\n",
            ),
            shown("headed", 11, FULL),
        ],
    ),
    Scenario(
        "console-producer",
        "failures",
        [
            create("mixed"),
            Step(KEYED.replace("keyed", "mixed"), stdin="good\tline\nbad line\nnever\tread\n", fails=True),
            Step(
                "console-producer --topic mixed --reader-property parse.headers=true",
                stdin="a:1\tgood\nbad\tline\n",
                fails=True,
            ),
            Step("console-producer --topic mixed --reader-property parse.headers=true", stdin="bad\n", fails=True),
            Step(
                "console-producer --topic mixed --reader-property parse.headers=true --reader-property null.marker=NIL",
                stdin="NIL:1\tv\n",
                fails=True,
            ),
            shown("mixed", 2, FULL),
            Step("console-producer --topic mixed --reader-property headers.delimiter=,", fails=True),
            Step("console-producer --topic mixed --reader-property headers.key.separator=,", fails=True),
            Step("console-producer --topic mixed --reader-property null.marker=:", fails=True),
            Step(
                "console-producer --topic mixed --reader-property key.separator=x --reader-property null.marker=x",
                fails=True,
            ),
            Step("console-producer --topic mixed --compression-codec brotli", stdin="x\n", fails=True),
            Step("console-producer --topic mixed --request-required-acks 7", stdin="x\n", fails=True),
            Step("console-producer --topic mixed --batch-size many", fails=True),
            Step("console-producer --topic mixed --line-reader no.such.Reader", stdin="x\n", fails=True),
            Step("console-producer --topic mixed --reader-config {directory}/none", stdin="x\n", fails=True),
            Step("console-producer --topic mixed --command-config {directory}/none", stdin="x\n", fails=True),
            Step("console-producer --topic mixed --property parse.key=true --reader-property a=b", fails=True),
            Step("console-producer --topic mixed --producer-property a=b --command-property a=b", fails=True),
            Step("console-producer", fails=True),
            Step("console-producer --topic mixed --zookeeper localhost", fails=True),
            # Apache's tool waits for a minute, or without end.
            Step(
                "console-producer --topic mixed --bootstrap-server {server} --bootstrap-server localhost:1",
                fails=True,
                only_ours=True,
            ),
            # Apache's tool logs an error and ends with 0.
            Step("console-producer --topic mixed", stdin="x" * 1_100_000 + "\nsmall\n", fails=True, only_ours=True),
            Step("console-producer --topic", fails=True),
        ],
    ),
    Scenario(
        "console-producer",
        "older_flags",
        [
            create("older"),
            File("reader.properties", "parse.key=true\nkey.separator=:\n"),
            File("producer.properties", "linger.ms=3\nclient.id=from-file\nkey.serializer=nonsense\n"),
            Step("console-producer --topic older --property parse.key=true", stdin="a\t1\n"),
            Step("console-producer --topic older --reader-config {directory}/reader.properties", stdin="b:2\n"),
            Step(
                "console-producer --topic older --reader-config {directory}/reader.properties"
                " --reader-property key.separator=+",
                stdin="c+3\n",
            ),
            Step(
                "console-producer --topic older --command-config {directory}/producer.properties"
                " --producer-property linger.ms=4",
                stdin="four\n",
            ),
            Step("console-producer --topic older --producer.config {directory}/producer.properties", stdin="five\n"),
            Step("console-producer --topic older --max-partition-memory-bytes 2000", stdin="six\n"),
            shown("older", 6, FULL),
        ],
    ),
]
