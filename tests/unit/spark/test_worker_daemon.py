"""What workers of Spark say on the user's terminal, and which signals they hear."""

import signal
import subprocess
import sys

import pytest

from levada.spark.worker_daemon import Handler, QuietTraceback, deafened, pass_over


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), ConnectionResetError(104, "reset")])
def test_a_worker_that_spark_hangs_up_on_says_nothing(error: OSError, capfd: pytest.CaptureFixture[str]) -> None:
    try:
        raise error
    except OSError:
        QuietTraceback.print_exc()
    assert capfd.readouterr() == ("", "")


def test_a_worker_that_fails_says_why(capfd: pytest.CaptureFixture[str]) -> None:
    try:
        raise KeyError("of the user")
    except KeyError:
        QuietTraceback.print_exc()
        assert "of the user" in QuietTraceback.format_exc()
    assert "KeyError: 'of the user'" in capfd.readouterr().err


def test_a_deaf_daemon_keeps_its_own_handlers_for_other_signals() -> None:
    held: dict[int, Handler] = {}
    hear = deafened(held.__setitem__)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        hear(number, signal.SIG_DFL)
    assert held == {
        signal.SIGTERM: pass_over,
        signal.SIGINT: pass_over,
        signal.SIGHUP: signal.SIG_DFL,
    }


DEAF_WORKER = """
import os, signal, subprocess, sys
from levada.spark.worker_daemon import IGNORED, deafened
signal.signal = deafened(signal.signal)
for number in IGNORED:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    child = subprocess.Popen(["sleep", "60"])
    child.send_signal(number)
    assert child.wait(10) == -number
"""


def test_programs_that_a_deaf_worker_starts_hear_signals() -> None:
    subprocess.run([sys.executable, "-c", DEAF_WORKER], check=True, timeout=60)
