"""Settings of cleaning that a broker refuses: at its start by one line, and while it runs without any change."""

import subprocess
import sys
from pathlib import Path

import pytest

from levada import Admin, Producer
from levada.client.admin import ConfigResource, NewTopic
from levada.model.error_codes import ErrorCode
from tests.brokers import BrokerProcess
from tests.tools.stages import wait_until

THREADS = "log.cleaner.threads"
MEMORY = "log.cleaner.dedupe.buffer.size"
BUFFER = "log.cleaner.io.buffer.size"
LOAD_FACTOR = "log.cleaner.io.buffer.load.factor"
RATE = "log.cleaner.io.max.bytes.per.second"
THIS_BROKER = ConfigResource.broker(1)
ALL_BROKERS = ConfigResource.broker(None)

THREADS_TEXT = (
    "Invalid value org.apache.kafka.common.config.ConfigException: Log cleaner threads cannot be increased to "
    "more than double the current value 1 for configuration Invalid dynamic configuration"
)
MEMORY_TEXT = "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (f"{THREADS}=0", f"{THREADS} must be at least 1, not 0"),
        (f"{MEMORY}=1048576", MEMORY_TEXT),
        (f"{THREADS}=200", MEMORY_TEXT),
        (f"{RATE}=10MB", f"{RATE} must be of type double, not '10MB'"),
        ("log.cleaner.min.cleanable.ratio=50", "log.cleaner.min.cleanable.ratio must be no more than 1, not '50'"),
        ("log.cleaner.thread=2", "unknown configuration key 'log.cleaner.thread'; did you mean log.cleaner.threads?"),
    ],
)
def test_a_broker_with_a_bad_file_says_so_in_one_line_and_ends(tmp_path: Path, lines: str, message: str) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path / 'data'}\nlisteners=PLAINTEXT://localhost:0\n{lines}\n")
    command = [sys.executable, "-m", "levada", "serve", "--config", str(properties)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith(f"levada: {message}")
    assert not (tmp_path / "data").exists()


def described(admin: Admin) -> dict[str, str | None]:
    entries = admin.describe_configs([THIS_BROKER])[THIS_BROKER]
    return {name: entries[name].value for name in (THREADS, MEMORY, BUFFER, LOAD_FACTOR, RATE)}


@pytest.mark.parametrize("resource", [THIS_BROKER, ALL_BROKERS], ids=str)
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({THREADS: "3"}, THREADS_TEXT),
        ({THREADS: "0"}, f"{THREADS} must be at least 1, not 0"),
        ({MEMORY: "1048576"}, f"requirement failed: {MEMORY_TEXT}"),
        ({THREADS: "2", MEMORY: "2000000"}, f"requirement failed: {MEMORY_TEXT}"),
        ({BUFFER: "100000", MEMORY: "5"}, f"requirement failed: {MEMORY_TEXT}"),
        ({BUFFER: "-1"}, f"Invalid value -1 for configuration {BUFFER}: Value must be at least 0"),
        ({RATE: "10MB"}, f"Invalid value 10MB for configuration {RATE}: Not a number of type DOUBLE"),
    ],
)
def test_a_bad_change_is_refused_and_nothing_of_it_stays(
    broker: BrokerProcess, resource: ConfigResource, changes: dict[str, str], text: str
) -> None:
    with Admin(broker.bootstrap) as admin:
        before = described(admin)
        error = admin.incremental_alter_configs({resource: changes}).errors[resource]
        assert error.code == ErrorCode.INVALID_REQUEST
        assert str(error).endswith(f": INVALID_REQUEST (42): {text.rstrip('.')}")
        assert described(admin) == before


def test_a_good_change_is_taken_and_taken_back(broker: BrokerProcess) -> None:
    changes = {THREADS: "2", MEMORY: "3000000", BUFFER: "65536", LOAD_FACTOR: "0.5", RATE: "1000000.0"}
    with Admin(broker.bootstrap) as admin:
        before = described(admin)
        admin.incremental_alter_configs({THIS_BROKER: changes}).raise_any()
        assert described(admin) == {**changes, RATE: "1000000.0"}
        admin.incremental_alter_configs({THIS_BROKER: dict.fromkeys(changes)}).raise_any()
        assert described(admin) == before


def test_a_rate_that_changes_counts_for_what_is_under_way_and_after_a_restart(tmp_path: Path) -> None:
    process = BrokerProcess(tmp_path / "data", "log.cleaner.backoff.ms=100", f"{RATE}=1").start()
    configs = {"cleanup.policy": "compact", "internal.segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
    try:
        with Admin(process.bootstrap) as admin, Producer(process.bootstrap, linger_ms=0) as producer:
            admin.create_topics([NewTopic("slow", 1, configs=configs)]).raise_any()
            for _ in range(40):
                producer.send("slow", bytes(200), key=b"key", partition=0).result(10)
            wait_until(lambda: "levada.world.worker_process" in _children(process.pid))
            assert "cleaned log" not in process.log
            admin.incremental_alter_configs({THIS_BROKER: {RATE: "1e9"}}).raise_any()
            wait_until(lambda: "cleaned log" in process.log)
            assert "cleaning begun again" in process.log
        process.stop()
        process.log_path.write_text("")
        process.start()
        with Producer(process.bootstrap, linger_ms=0) as producer:
            for _ in range(40):
                producer.send("slow", bytes(200), key=b"key", partition=0).result(10)
        wait_until(lambda: "cleaned log" in process.log)
    finally:
        process.kill()


def _children(pid: int) -> str:
    """The command lines of a process's children."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return " ".join(Path(f"/proc/{child}/cmdline").read_text() for child in found)
