"""The processes under measurement: the broker, a bare uvloop sink and a plain C sink; and what each one costs."""

import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.wire import Layout

SINKS = Path(__file__).parent / "sinks"
START_SECONDS = 120
STOP_SECONDS = 60
_CPU_CLOCK_OF_PROCESS = 2
"""CPUCLOCK_SCHED of clock_getcpuclockid(3): all threads of a process, in nanoseconds."""


class Server:
    """A started process that listens on a port of this machine."""

    def __init__(
        self, process: "subprocess.Popen[str]", port: int, start_seconds: float, queued_seconds: float
    ) -> None:
        self._process = process
        self.port = port
        self.start_seconds = start_seconds
        """From its start until it listened."""
        self.queued_seconds = queued_seconds
        """How much of that it waited for a CPU that others had: on an idle machine it would have been ready earlier."""

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_ns(self) -> int:
        """The CPU time it has used so far: a busy neighbour does not count, as it would in wall time."""
        return time.clock_gettime_ns((~self.pid << 3) | _CPU_CLOCK_OF_PROCESS)

    def resident_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self._process.poll() is None:
            os.kill(self.pid, number)
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()


def launch(command: Sequence[str]) -> Server:
    """Start a server and wait for the line that names its port."""
    with tempfile.TemporaryFile("w+") as errors:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            line = process.stdout.readline() if selector.select(START_SECONDS) else ""
        seconds, queued_seconds = time.perf_counter() - begun, _queued_seconds(process.pid)
        found = re.search(r"listening on \S*:(\d+)", line)
        if found is None:
            process.kill()
            process.wait()
            errors.seek(0)
            raise RuntimeError(f"{command[:4]} said {line!r} instead of listening:\n{errors.read()}")
        return Server(process, int(found[1]), seconds, queued_seconds)


def _queued_seconds(pid: int) -> float:
    """The second figure of schedstat; kernels built without it tell nothing."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except FileNotFoundError:
        return 0.0


@contextmanager
def running(command: Sequence[str]) -> Iterator[Server]:
    server = launch(command)
    try:
        yield server
    finally:
        server.stop()


def broker_command(data_directory: Path, *settings: str) -> list[str]:
    command = [sys.executable, "-m", "levada", "serve", "--data-dir", str(data_directory)]
    # Records with times of old must not be gone when a round lasts longer.
    command += ["--listen", "127.0.0.1:0", "--set", "log.retention.ms=-1"]
    for setting in settings:
        command += ["--set", setting]
    return command


def uvloop_sink_command(log: Path, layout: Layout) -> list[str]:
    return [sys.executable, str(SINKS / "uvloop_sink.py"), str(log), *layout.arguments()]


def c_sink_command(binary: Path, log: Path, layout: Layout) -> list[str]:
    return [str(binary), str(log), *layout.arguments()]


def build_c_sink(directory: Path) -> Path | None:
    """Compile the C sink; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    binary = directory / "sink"
    subprocess.run([compiler, "-O2", "-o", str(binary), str(SINKS / "sink.c")], check=True)
    return binary


def allow_many_files() -> None:
    """A thousand connections need more descriptors than some shells allow; children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
