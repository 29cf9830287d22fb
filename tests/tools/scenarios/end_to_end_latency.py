"""What `end-to-end-latency` reports, with the numbers left out."""

from tests.tools.scenario import File, Scenario, Step

TEST = "end-to-end-latency --topic e2e --num-records 5 --producer-acks all --record-size 10"
OURS = (r", 99\.99th = \d+", "")
"""Apache's stops at 99.9."""
NUMBERS = (
    OURS,
    (r"\d+\.\d+(?:E-?\d+)? ms", "N ms"),
    (r"(?<=\t)\d+\.\d+(?:E-?\d+)?", "N"),
    (r"(?<== )\d+(?=[,\n])", "N"),
)

SCENARIOS = [
    Scenario(
        "end-to-end-latency",
        "reports",
        [
            File("client.properties", "client.id=me\n"),
            Step(TEST, masks=NUMBERS),
            Step(
                f"{TEST} --record-key-size 3 --num-headers 2 --record-header-key-size 4 --record-header-size 5",
                masks=NUMBERS,
            ),
            Step(f"{TEST} --num-headers 1 --record-header-size -1 --record-key-size", masks=NUMBERS),
            Step(TEST.replace("all", "1").replace("--record-size 10", "--record-size 0"), masks=NUMBERS),
            Step(f"{TEST} --command-config {{directory}}/client.properties", masks=NUMBERS),
            Step("end-to-end-latency {server} older 3 all 10", masks=NUMBERS),
            Step("end-to-end-latency {server} older 3 1 10 {directory}/client.properties", masks=NUMBERS),
        ],
    ),
    Scenario(
        "end-to-end-latency",
        "failures",
        [
            Step("end-to-end-latency --num-records 5 --producer-acks all --record-size 10", fails=True),
            Step("end-to-end-latency --topic e2e --producer-acks all --record-size 10", fails=True),
            Step("end-to-end-latency --topic e2e --num-records 5 --record-size 10", fails=True),
            Step("end-to-end-latency --topic e2e --num-records 5 --producer-acks all", fails=True),
            Step(TEST.replace("--num-records 5", "--num-records 0"), fails=True),
            Step(TEST.replace("acks all", "acks 0"), fails=True),
            Step(TEST.replace("--record-size 10", "--record-size -1"), fails=True),
            Step(f"{TEST} --record-key-size -1", fails=True),
            Step(f"{TEST} --num-headers -1", fails=True),
            Step(f"{TEST} --record-header-key-size -1", fails=True),
            Step(f"{TEST} --record-header-size -2", fails=True),
            Step(f"{TEST} --command-config {{directory}}/none", fails=True),
            Step("end-to-end-latency {server} older 3 all", fails=True),
            Step("end-to-end-latency {server} older three all 10", fails=True),
        ],
    ),
]
