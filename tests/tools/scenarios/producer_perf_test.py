"""What `producer-perf-test` reports, with the numbers left out."""

from tests.tools.scenario import File, Scenario, Step

TEST = "producer-perf-test --topic perf --throughput -1"
WINDOW = r"N records sent, N records/sec \(N MB/sec\), N ms avg latency, N ms max latency\.\n"

OURS = (r", \d+ ms 99\.99th", "")
"""Apache's stops at 99.9."""
NUMBERS = (r"(?<![\w.])\d+(?:\.\d+)?", "N")
ONE_WINDOW = (rf"(?:{WINDOW})+", "N records sent ... as often as it is time\n")
NO_WINDOW = (WINDOW, "")

SCENARIOS = [
    Scenario(
        "producer-perf-test",
        "reports",
        [
            File("payloads.txt", "one\ntwo\n\nthree\n"),
            File("payloads.csv", "one,two;three"),
            File("producer.properties", "linger.ms=1\nclient.id=me\n"),
            Step(f"{TEST} --num-records 1000 --record-size 100"),
            Step(f"{TEST} --num-records 10 --payload-monotonic"),
            Step(f"{TEST} --num-records 10 --payload-file {{directory}}/payloads.txt"),
            Step(f"{TEST} --num-records 10 --payload-file {{directory}}/payloads.csv --payload-delimiter '[,;]'"),
            Step(
                "producer-perf-test --topic perf --throughput 20 --num-records 20 --record-size 10"
                " --reporting-interval 200",
                masks=(ONE_WINDOW,),
            ),
            Step(
                "producer-perf-test --topic perf --throughput 20 --num-records 25 --record-size 10"
                " --reporting-interval 200 --warmup-records 3",
                # Java's first record may take so long that there is no time left for it.
                masks=(NO_WINDOW, (r"In steady state\.\n", "")),
            ),
            Step(f"{TEST} --num-records 10 --record-size 10 --command-property linger.ms=2 batch.size=1000 acks=1"),
            Step(f"{TEST} --num-records 10 --record-size 10 --producer-props linger.ms=2 batch.size=1000"),
            Step(f"{TEST} --num-records 10 --record-size 10 --command-config {{directory}}/producer.properties"),
            Step(f"{TEST} --num-records 10 --record-size 10 --producer.config {{directory}}/producer.properties"),
            Step(f"{TEST} --num-records 10 --record-size 10 --transactional-id books"),
            Step(f"{TEST} --num-records 10 --record-size 10 --transaction-duration-ms 1"),
            # There are fewer numbers about our producer than about Java's.
            Step(f"{TEST} --num-records 10 --record-size 10 --print-metrics", only_ours=True),
        ],
        masks=(OURS, NUMBERS),
    ),
    Scenario(
        "producer-perf-test",
        "failures",
        [
            File("empty.txt", ""),
            Step(f"{TEST} --num-records 10", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 1 --payload-monotonic", fails=True),
            Step(f"{TEST} --num-records 0 --record-size 1", fails=True),
            Step(f"{TEST} --num-records ten --record-size 1", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 0", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 1 --warmup-records 10", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 1 --reporting-interval 0", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 1 --transaction-duration-ms 0", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 1 --command-property a=b --producer-props c=d", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 1 --command-config x --producer.config y", fails=True),
            Step(f"{TEST} --num-records 10 --payload-file {{directory}}/none", fails=True),
            Step(f"{TEST} --num-records 10 --payload-file {{directory}}/empty.txt", fails=True),
            Step(f"{TEST} --num-records 10 --record-size 1 --command-property acks=7", fails=True),
            Step("producer-perf-test --topic perf --num-records 10 --record-size 1", fails=True),
            Step("producer-perf-test --throughput -1 --num-records 10 --record-size 1", fails=True),
            Step("producer-perf-test --topic perf --throughput fast --num-records 10 --record-size 1", fails=True),
            # Apache's tool stops at the first record and stays there.
            Step(
                "producer-perf-test --topic perf --throughput 0 --num-records 10 --record-size 1",
                fails=True,
                only_ours=True,
            ),
            # Apache's tool prints a stack trace for each record and ends with 0.
            Step(f"{TEST} --num-records 2 --record-size 1100000", fails=True, only_ours=True),
        ],
    ),
]
