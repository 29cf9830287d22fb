"""Real ZooKeeper servers in processes of their own, for tests: `levada zookeeper`, alone or as an ensemble."""

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

START_SECONDS = 40
STOP_SECONDS = 20
POLL_SECONDS = 0.05


class ZooKeeperServer:
    """One `levada zookeeper`, and the Java that it runs."""

    def __init__(self, directory: Path, port: int, *flags: str) -> None:
        self.port = port
        self._log_path = directory.with_name(f"{directory.name}.log")
        self._command = [sys.executable, "-m", "levada", "zookeeper", "--data-dir", str(directory)]
        self._command += ["--port", str(port), "--host", "localhost", *flags]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"localhost:{self.port}"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Begin to start; `wait_until_serving` waits for it."""
        assert self._process is None
        environment = {**os.environ, "SERVER_JVMFLAGS": "-Xmx128m -XX:TieredStopAtLevel=1"}
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, env=environment)

    def wait_until_serving(self) -> str:
        """Until it takes part in a quorum, if it is not alone; the mode it is in."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            assert self._process.poll() is None, self._log_path.read_text()
            mode = self.mode()
            if mode:
                return mode
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"no answer from {self.address}: {self._log_path.read_text()}")

    def mode(self) -> str:
        """leader, follower or standalone; empty while it does not serve."""
        try:
            with socket.create_connection(("localhost", self.port), timeout=1) as connection:
                connection.settimeout(1)
                connection.sendall(b"srvr")
                said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""
        return said.partition("Mode: ")[2].partition("\n")[0]

    def stop(self) -> int:
        """As an operator does; the exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._wait()

    def kill(self) -> None:
        if self._process is not None:
            self._signal(signal.SIGKILL)
            self._wait()

    def pause(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        """To the Java, which is the tool's only child."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for child in children:
            os.kill(int(child), number)

    def _wait(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        try:
            return process.wait(STOP_SECONDS)
        finally:
            process.kill()
            process.wait()


class ZooKeeperEnsemble:
    """Servers on free ports of this machine; within `with`, they run."""

    def __init__(self, directory: Path, size: int = 3) -> None:
        ports = free_ports(3 * size)
        peers = {
            number: f"localhost:{ports[size + number - 1]}:{ports[2 * size + number - 1]}"
            for number in range(1, size + 1)
        }
        text = ",".join(f"{number}={address}" for number, address in peers.items())
        self.servers: list[ZooKeeperServer] = []
        for number in peers:
            flags = ("--server-id", str(number), "--ensemble", text) if size > 1 else ()
            self.servers.append(ZooKeeperServer(directory / f"zookeeper-{number}", ports[number - 1], *flags))
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def hosts(self) -> str:
        """As the door takes them."""
        return ",".join(server.address for server in self.servers)

    def start(self) -> "ZooKeeperEnsemble":
        """Those that do not run; comes back when all serve."""
        for server in self.servers:
            if not server.is_running:
                server.start()
        for server in self.servers:
            server.wait_until_serving()
        return self

    def stop(self) -> None:
        with ExitStack() as endings:
            for server in self.servers:
                endings.callback(server.kill)

    def leader(self) -> ZooKeeperServer:
        return next(server for server in self.servers if server.is_running and server.mode() == "leader")

    def __enter__(self) -> "ZooKeeperEnsemble":
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on, all at once: they are different ones."""
    with ExitStack() as open_sockets:
        sockets = [open_sockets.enter_context(socket.create_server(("localhost", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]
