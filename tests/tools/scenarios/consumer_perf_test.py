"""What `consumer-perf-test` reports, with the numbers left out."""

from levada import Producer
from tests.tools.scenario import Act, File, Scenario, Stage, Step


def fill(stage: Stage) -> None:
    with Producer(stage.bootstrap) as producer:
        producer.send_many("perf", [b"%d" % number for number in range(100)]).result()


TEST = "consumer-perf-test --topic perf --num-records 100"

TIME = (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}", "TIME")
NUMBERS = (r"(?<![\w.(])-?\d+(?:\.\d+)?", "N")

SCENARIOS = [
    Scenario(
        "consumer-perf-test",
        "reports",
        [
            Act(fill),
            File("consumer.properties", "client.id=me\nfetch.min.bytes=1\n"),
            Step(TEST),
            Step(f"{TEST} --hide-header"),
            Step("consumer-perf-test --include 'perf|none' --num-records 100"),
            Step("consumer-perf-test --topic perf --messages 100"),
            Step(f"{TEST} --group readers --fetch-size 100000 --socket-buffer-size 100000 --timeout 20000"),
            Step(f"{TEST} --command-property fetch.max.wait.ms=100 --command-property client.id=you"),
            Step(f"{TEST} --command-config {{directory}}/consumer.properties"),
            Step(f"{TEST} --consumer.config {{directory}}/consumer.properties"),
            Step(f"{TEST} --date-format HH:mm", masks=((r"\bN:N\b", "HH:mm"),)),
            Step(f"{TEST} --show-detailed-stats"),
            Step(f"{TEST} --show-detailed-stats --reporting-interval 1", masks=((r"(?:TIME, .*\n)+", "TIME, ...\n"),)),
            Step("consumer-perf-test --topic perf --num-records 1000 --from-latest --timeout 500"),
            # There are fewer numbers about our consumer than about Java's.
            Step(f"{TEST} --print-metrics", only_ours=True),
        ],
        masks=(TIME, NUMBERS),
    ),
    Scenario(
        "consumer-perf-test",
        "failures",
        [
            Step("consumer-perf-test --num-records 10", fails=True),
            Step("consumer-perf-test --topic perf --include perf --num-records 10", fails=True),
            Step("consumer-perf-test --topic perf", fails=True),
            Step("consumer-perf-test --topic perf --num-records 10 --messages 10", fails=True),
            Step("consumer-perf-test --topic perf --num-records ten", fails=True),
            Step("consumer-perf-test --topic perf --num-records 10 --reporting-interval 0", fails=True),
            Step("consumer-perf-test --topic perf --num-records 10 --command-config x --consumer.config y", fails=True),
            Step("consumer-perf-test --topic perf --num-records 10 --command-config {directory}/none", fails=True),
            Step("consumer-perf-test --topic perf --num-records 10 --date-format nonsense", fails=True),
            Step("consumer-perf-test --include '(' --num-records 10", fails=True),
        ],
    ),
]
