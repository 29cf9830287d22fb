"""A real Apache Kafka broker (Maven), as a process."""

import signal
import socket
import subprocess
import time
from pathlib import Path

from levada.storage.log_directory import CLEAN_SHUTDOWN

HERE = Path(__file__).parent / "apache"
JARS = HERE / "build" / "broker-jars"

START_SECONDS = 40
STOP_SECONDS = 20
ENDED_BY_SIGTERM = 128 + signal.SIGTERM

SEGMENT_BYTES = 1 << 20
"""The least that Apache allows."""
INDEX_INTERVAL_BYTES = 512

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": 1,
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "group.initial.rebalance.delay.ms": 0,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "log.segment.bytes": SEGMENT_BYTES,
    "log.index.interval.bytes": INDEX_INTERVAL_BYTES,
}


class ApacheBroker:
    """A node that is both broker and controller, on ports of its own."""

    def __init__(self, directory: Path, *more_directories: str) -> None:
        self.data_directory = directory / "data"
        self.data_directories = [self.data_directory, *(directory / name for name in more_directories)]
        self._log_path = directory / "broker.log"
        self._settings_path = directory / "server.properties"
        self._process: subprocess.Popen[bytes] | None = None
        port, controller_port = free_ports(2)
        self.bootstrap = f"localhost:{port}"
        settings = SETTINGS | {
            "log.dirs": ",".join(map(str, self.data_directories)),
            "listeners": f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller_port}",
            "controller.quorum.voters": f"1@localhost:{controller_port}",
        }
        directory.mkdir()
        self._settings_path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        command = ["kafka.tools.StorageTool", "format", "--cluster-id", "AAAAAAAAAAAAAAAAAAAAAQ", "--config"]
        formatted = subprocess.run(
            java(*command, str(self._settings_path)), capture_output=True, text=True, timeout=START_SECONDS, check=False
        )
        assert formatted.returncode == 0, formatted.stderr

    @property
    def log(self) -> str:
        """What it said since it was started last."""
        return self._log_path.read_text(errors="replace")

    def start(self) -> None:
        with self._log_path.open("w") as log:
            command = java("kafka.Kafka", str(self._settings_path))
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + START_SECONDS
        while "Kafka Server started" not in self.log:
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.1)

    def stop(self) -> None:
        """End it as an operator would."""
        assert self._end(signal.SIGTERM) == ENDED_BY_SIGTERM
        assert (self.data_directory / CLEAN_SHUTDOWN).exists(), self.log

    def kill(self) -> None:
        """End it as a crash would, if it runs."""
        if self._process is not None:
            self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        self._process.send_signal(number)
        try:
            return self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()


def java(*arguments: str) -> list[str]:
    return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", f"{JARS}/*", *arguments]


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("localhost", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
