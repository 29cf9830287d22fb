"""Brokers as processes of this machine: in the background, found again by their data directory, and stopped."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from levada.cli.kit.refusals import Refused
from levada.cli.tools import canonical_name

LISTENING: Final = "listening on"
PID_NAME: Final = "levada.pid"
LOCK_NAME: Final = ".lock"
POLL_SECONDS: Final = 0.05


@contextmanager
def noted_process(data_directory: str) -> Iterator[None]:
    """While a broker runs in the directory, whose lock it holds: its process id in a file there."""
    path = Path(data_directory, PID_NAME)
    path.write_text(f"{os.getpid()}\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def start_daemon(arguments: list[str], data_directory: str, log_path: Path) -> int:
    """Run `levada ARGUMENTS` in the background and come back when it listens; Refused when it ends before that."""
    if is_running(data_directory):
        raise Refused(f"a broker runs in {data_directory} already; stop it with `levada stop` first")
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        seen = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "levada", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        line = _first_word(process, log_path, seen)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise KeyboardInterrupt("interrupted before the broker listened; it was stopped") from None
    # It must not be waited for when this process ends.
    process.returncode = 0
    print(f"{line} (process {process.pid}, log {log_path})")
    return 0


def _first_word(process: "subprocess.Popen[bytes]", log_path: Path, seen: int) -> str:
    """The line with which it says that it listens."""
    while True:
        has_ended = process.poll() is not None
        with log_path.open("rb") as log:
            log.seek(seen)
            lines = log.read().decode(errors="replace").splitlines()
        for line in lines:
            if line.startswith("levada: ") and LISTENING in line:
                return line
        if has_ended:
            said = [line for line in lines if line.startswith("levada: ")]
            reason = said[-1].removeprefix("levada: ") if said else f"exit code {process.returncode}"
            raise Refused(f"the broker did not start: {reason} (its log is {log_path})")
        time.sleep(POLL_SECONDS)


def is_running(data_directory: str) -> bool:
    """Whether a process holds the directory's lock."""
    try:
        fd = os.open(Path(data_directory, LOCK_NAME), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def process_of(data_directory: str) -> int | None:
    """The broker that runs in a directory; None when there is none, or it does not listen yet."""
    if not is_running(data_directory):
        return None
    try:
        return int(Path(data_directory, PID_NAME).read_text())
    except (FileNotFoundError, ValueError):
        return None


def all_brokers() -> list[int]:
    """The processes of this user that were started by `levada serve`."""
    if not Path("/proc/self").exists():
        raise Refused("this system has no /proc to find brokers in: name their --data-dir")
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid() and _is_broker(entry):
                found.append(int(entry.name))
        except OSError:
            # It has ended meanwhile, or is not ours to look at.
            continue
    return sorted(found)


def _is_broker(process: Path) -> bool:
    words = process.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
    starts = [place for place, word in enumerate(words[:4]) if Path(word).name == "levada"]
    is_ours = any(canonical_name(words[place + 1]) == "serve" for place in starts if place + 1 < len(words))
    # The one that waits for a daemon to listen is no broker.
    return is_ours and not {"--daemon", "-daemon"} & set(words)


def stop_process(pid: int, timeout_s: float) -> bool:
    """Ask a process to end, as an operator would; whether it did in time."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return True
    except PermissionError:
        raise Refused(f"process {pid} belongs to another user") from None
    deadline = time.monotonic() + timeout_s
    while _is_alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _is_alive(pid: int) -> bool:
    try:
        # A child that has ended and was not waited for still has its number.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
