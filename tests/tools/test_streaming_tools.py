"""The tools that send and read records, where no golden text can say it: signals, pipes, terminals, large inputs."""

import json
import os
import pty
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from levada import Admin, Consumer, Producer
from levada.client.admin import NewTopic
from levada.client.types import TopicPartition
from tests.brokers import BrokerProcess
from tests.tools.running import run_ours
from tests.tools.stages import SETTINGS, wait_until

WAIT_SECONDS = 30.0
MANY = 200_000
INTEGERS = "org.apache.kafka.common.serialization.IntegerDeserializer"

TOPICS = ("bulk", "typed", "shown", "ints", "piped", "prompted", "measured", "watched", "counted")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("streaming")
    broker = BrokerProcess(directory / "data", *SETTINGS, "auto.create.topics.enable=false").start()
    try:
        with Admin(broker.bootstrap) as admin:
            admin.create_topics([NewTopic(topic, 1) for topic in TOPICS]).raise_any()
        yield broker.bootstrap
    finally:
        code = broker.stop()
    assert code == 0
    assert "Traceback" not in broker.log, broker.log


@contextmanager
def started(*arguments: str, server: str, stdin: int = subprocess.DEVNULL) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(
        [sys.executable, "-m", "levada", *arguments, "--bootstrap-server", server],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def _heed_interrupts() -> None:
    # A shell's background jobs ignore Ctrl-C, and their children would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def ended(process: "subprocess.Popen[str]", number: signal.Signals | None = None) -> tuple[int, str, str]:
    if number is not None:
        process.send_signal(number)
    out, err = process.communicate(timeout=WAIT_SECONDS)
    return process.returncode, out, err


def line_of(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()
    return line


def end_offset(server: str, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with Consumer(server) as consumer:
        return consumer.end_offsets([partition])[partition]


def send(server: str, topic: str, *values: bytes) -> None:
    with Producer(server) as producer:
        producer.send_many(topic, list(values)).result()


def test_a_large_file_arrives_in_order(server: str, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {number}\n" for number in range(MANY)))
    with path.open() as file, started("console-producer", "--topic", "bulk", server=server, stdin=file.fileno()) as one:
        assert ended(one) == (0, "", "")
    with started(
        "console-consumer", "--topic", "bulk", "--partition", "0", "--offset", "0", "--max-messages", str(MANY),
        server=server,
    ) as one:  # fmt: skip
        code, out, err = ended(one)
    assert (code, err) == (0, f"Processed a total of {MANY} messages\n")
    assert out == path.read_text()


def test_what_was_typed_before_ctrl_c_is_sent(server: str) -> None:
    with started(
        "console-producer", "--topic", "typed", "--timeout", "60000", server=server, stdin=subprocess.PIPE
    ) as one:
        assert one.stdin is not None
        one.stdin.write("one\ntwo\n")
        one.stdin.flush()
        # It is read when the producer has asked for its topic: from then on the lines wait for company.
        wait_until(lambda: _is_reading(one))
        assert ended(one, signal.SIGINT) == (130, "", "levada: interrupted: 2 records were sent\n")
    assert end_offset(server, "typed") == 2


def _is_reading(process: "subprocess.Popen[str]") -> bool:
    """Whether nothing is left in its pipe, and it waits for more."""
    assert process.stdin is not None
    waiting = Path(f"/proc/{process.pid}/wchan").read_text()
    return "pipe" in waiting


def test_a_topic_that_does_not_exist_is_one_line(server: str) -> None:
    ran = run_ours(
        ["console-producer", "--topic", "none", "--max-block-ms", "300", "--bootstrap-server", server], "x\n"
    )
    assert ran.code == 1
    assert ran.err.startswith("levada: ")
    assert "none" in ran.err
    assert ran.err.count("\n") == 1
    ran = run_ours(["console-consumer", "--topic", "none", "--timeout-ms", "300", "--bootstrap-server", server])
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "levada: there is no topic none yet: waiting for it\nProcessed a total of 0 messages\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_consumer_that_is_ended_counts_and_commits(server: str, number: signal.Signals, code: int) -> None:
    group = f"ended-by-{number}"
    send(server, "shown", b"x")
    count = end_offset(server, "shown")
    with started("console-consumer", "--topic", "shown", "--group", group, "--from-beginning", server=server) as one:
        for _ in range(count):
            assert line_of(one) == "x\n"
        assert ended(one, number) == (code, "", f"Processed a total of {count} messages\n")
    with Admin(server) as admin:
        committed = admin.list_group_offsets({group: None})[group][TopicPartition("shown", 0)]
    assert committed is not None
    assert committed.offset == count


def test_only_what_was_printed_is_committed(server: str) -> None:
    send(server, "ints", struct.pack(">i", 1), b"bad", struct.pack(">i", 2), struct.pack(">i", 3))
    arguments = [
        "console-consumer", "--topic", "ints", "--group", "careful", "--from-beginning", "--value-deserializer",
        INTEGERS, "--bootstrap-server", server,
    ]  # fmt: skip
    first = run_ours(arguments)
    assert (first.code, first.out) == (1, "1\n")
    second = run_ours([*arguments, "--max-messages", "2"])
    assert (second.code, second.out) == (0, "2\n3\n")


def test_a_reader_that_goes_away_ends_it_quietly(server: str) -> None:
    send(server, "piped", *[b"x" * 100] * 5_000)
    with started("console-consumer", "--topic", "piped", "--from-beginning", server=server) as one:
        assert line_of(one) == "x" * 100 + "\n"
        assert one.stdout is not None
        one.stdout.close()
        assert one.stderr is not None
        err = one.stderr.read()
        one.wait(WAIT_SECONDS)
    assert "Traceback" not in err
    assert one.returncode == 1


def test_a_terminal_has_a_prompt(server: str) -> None:
    primary, secondary = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "levada", "console-producer", "--topic", "prompted", "--bootstrap-server", server],
        stdin=secondary, stdout=secondary, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    os.close(secondary)
    try:
        _read_until(primary, b">")
        os.write(primary, b"hello\n")
        _read_until(primary, b"hello\r\n>")
        os.write(primary, b"\x04")
        assert process.wait(WAIT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(primary)
    assert end_offset(server, "prompted") == 1


def _read_until(terminal: int, text: bytes) -> None:
    seen = b""
    while not seen.endswith(text):
        seen += os.read(terminal, 1)


def test_a_measurement_that_is_interrupted_tells_what_it_has(server: str) -> None:
    with started(
        "producer-perf-test", "--topic", "measured", "--num-records", "100000", "--record-size", "10",
        "--throughput", "100", "--reporting-interval", "50", server=server,
    ) as one:  # fmt: skip
        assert " records sent, " in line_of(one)
        code, out, err = ended(one, signal.SIGINT)
    assert code == 130
    assert "99.99th." in out.splitlines()[-1]
    assert err == "levada: interrupted: the line above is about what was sent until then\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_verifiable_consumer_ends_cleanly(server: str, number: signal.Signals, code: int) -> None:
    with started("verifiable-consumer", "--topic", "watched", "--group-id", "watchers", server=server) as one:
        events = [json.loads(line_of(one))["name"], json.loads(line_of(one))["name"]]
        assert events == ["startup_complete", "partitions_assigned"]
        ran = ended(one, number)
    assert [json.loads(line)["name"] for line in ran[1].splitlines()] == [
        "shutdown_requested", "partitions_revoked", "shutdown_complete",
    ]  # fmt: skip
    assert (ran[0], ran[2]) == (code, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_verifiable_producer_accounts_for_every_record(server: str, number: signal.Signals, code: int) -> None:
    before = end_offset(server, "counted")
    with started("verifiable-producer", "--topic", "counted", "--throughput", "1000", server=server) as one:
        for _ in range(20):
            line_of(one)
        ran = ended(one, number)
    *_, complete, summary = map(json.loads, ran[1].splitlines())
    assert complete["name"] == "shutdown_complete"
    assert summary["name"] == "tool_data"
    assert summary["sent"] == summary["acked"] == end_offset(server, "counted") - before
    assert (ran[0], ran[2]) == (code, "")
