"""Small programs that use our clients, run in a process of their own: what they say, and how they end."""

import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass

PRELUDE = """
import asyncio, gc, os, signal, sys, threading, time
from levada import Consumer, Producer, aio
from levada.client.errors import BufferExhausted, IllegalState, KafkaError, TimedOut
bootstrap, topic = sys.argv[1:3]
"""

NOISE = ("Task was destroyed", "never retrieved", "never awaited", "Traceback", "Exception ignored", "ResourceWarning")


@dataclass(frozen=True, slots=True)
class Ending:
    code: int
    said: list[str]
    errors: str
    at: float
    """In seconds since the epoch: a script may say when it came to its end."""

    def check_quiet(self, *, warnings: int = 0) -> None:
        """It ended well, with not more than so many lines on stderr, each of them meant for people."""
        assert self.code == 0, self.errors
        assert not [noise for noise in NOISE if noise in self.errors], self.errors
        assert len(self.errors.splitlines()) <= warnings, self.errors


def run_script(text: str, *arguments: str, flags: str = "-X dev -W error", seconds: float = 30.0) -> Ending:
    """Run a program to its end; one that hangs is killed, and that is a failure."""
    script = PRELUDE + textwrap.dedent(text)
    done = subprocess.run(
        [sys.executable, *flags.split(), "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    # In its development mode asyncio remarks on whatever took long, which says something of the machine only.
    errors = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("Executing <"))
    return Ending(done.returncode, done.stdout.splitlines(), errors, time.time())
