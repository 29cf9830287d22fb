"""A command that goes on until it is ended, and its lines as they come."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import Queue
from typing import IO

WAIT_SECONDS = 30.0


class Followed:
    def __init__(self, command: Sequence[str]) -> None:
        # A shell's background jobs ignore Ctrl-C, and their children would too.
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_heed_interrupts
        )
        self._lines: Queue[str] = Queue()
        self._threads = [
            threading.Thread(target=self._read, args=(stream,)) for stream in (self.process.stdout, self.process.stderr)
        ]
        for thread in self._threads:
            thread.start()

    def until(self, pattern: str) -> str:
        """The next line, of either stream, that fits from end to end."""
        while True:
            line = self._lines.get(timeout=WAIT_SECONDS)
            if re.fullmatch(pattern, line):
                return line

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line.rstrip("\n"))


@contextmanager
def followed(*command: str) -> Iterator[Followed]:
    running = Followed(command)
    try:
        yield running
    finally:
        running.end()


def ours(*arguments: str) -> list[str]:
    """The command of one of our tools."""
    return [sys.executable, "-m", "levada", *arguments]


def _heed_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
