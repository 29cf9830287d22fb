"""A real broker in a process of its own, for tests."""

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 20
STOP_SECONDS = 10
UNLESS_A_TEST_SAYS_OTHERWISE = ("log.initial.task.delay.ms=86400000", "log.retention.check.interval.ms=86400000")
"""Many tests write records with times of old, which retention would take away in the middle of a test."""


class BrokerProcess:
    """`levada serve` on a free port, with poisoned receive buffers so that a view kept too long shows."""

    def __init__(
        self,
        data_directory: Path,
        *settings: str,
        port: int = 0,
        more_directories: Sequence[Path] = (),
        has_test_settings: bool = True,
        open_files: int | None = None,
        node_id: int = 1,
        coordinator: str | None = None,
    ) -> None:
        """Without test settings, its configuration is what a user's would be; it may be allowed few open files."""
        self.node_id = node_id
        self._coordinator = coordinator
        self.listens_by_flag = True
        """Else where its settings say."""
        self.data_directory = data_directory
        self.data_directories = (data_directory, *more_directories)
        self.log_path = data_directory.with_name(data_directory.name + ".log")
        self._settings = (*UNLESS_A_TEST_SAYS_OTHERWISE, *settings) if has_test_settings else settings
        self._port = port
        self._open_files = open_files
        self._process: subprocess.Popen[str] | None = None

    @property
    def bootstrap(self) -> str:
        return f"localhost:{self._port}"

    @property
    def port(self) -> int:
        return self._port

    def port_of(self, listener: str) -> int:
        """Of a listener that was given no port, as its log says."""
        return int(re.findall(rf"listening listener={listener} address=\S+:(\d+)", self.log)[-1])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """By itself."""
        return self._process is not None and self._process.poll() is not None

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def start(self) -> "BrokerProcess":
        command = [sys.executable, "-m", "levada", "serve", "--node-id", str(self.node_id)]
        command += ["--data-dir", ",".join(map(str, self.data_directories))]
        command += ["--set", "levada.poison.buffers=true"]
        if self.listens_by_flag:
            command += ["--listen", f"localhost:{self._port}"]
        if self._coordinator is not None:
            command += ["--coordinator", self._coordinator]
        for setting in self._settings:
            command += ["--set", setting]
        if self._open_files is not None:
            command = ["sh", "-c", f'ulimit -n {self._open_files} && exec "$@"', "sh", *command]
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = self._first_line()
        found = re.fullmatch(rf"levada: broker {self.node_id} listening on localhost:(\d+)", line)
        if found is None:
            self.kill()
            raise AssertionError(f"the broker said {line!r} instead of listening; its log:\n{self.log}")
        self._port = int(found[1])
        return self

    def stop(self) -> int:
        """End it as an operator would; returns the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def begin_to_stop(self) -> None:
        """Tell it to end, and wait for nothing."""
        os.kill(self.pid, signal.SIGTERM)

    def pause(self) -> None:
        """It stands still, with all its connections, until `resume`."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, number: signal.Signals) -> int:
        assert self._process is not None
        if self._process.poll() is None:
            os.kill(self._process.pid, number)
        try:
            return self._process.wait(STOP_SECONDS)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()

    def _first_line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        deadline = time.monotonic() + START_SECONDS
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(deadline - time.monotonic()):
                return ""
        return self._process.stdout.readline().rstrip("\n")


@contextmanager
def sound(process: BrokerProcess) -> Iterator[BrokerProcess]:
    """A broker that runs meanwhile; it must end well, and have had no error of its own."""
    process.start()
    try:
        yield process
    finally:
        code = process.stop()
    assert code == 0
    assert "Traceback" not in process.log, process.log
