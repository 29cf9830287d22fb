"""Brokers as processes of this machine: in the background, found again by their data directory, and stopped."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levada.cli.kafka_scripts import was_started_by
from levada.cli.kit.refusals import Refused
from levada.cli.tools import canonical_name

LISTENING: Final = "listening on"
PID_NAME: Final = "levada.pid"
LOCK_NAME: Final = ".lock"
POLL_SECONDS: Final = 0.05


@contextmanager
def noted_process(data_directories: Sequence[str], name: str) -> Iterator[None]:
    """While a broker runs in directories, whose locks it holds: its process id, and its name, in a file in each."""
    paths = [Path(directory, PID_NAME) for directory in data_directories]
    try:
        for path in paths:
            # One of several may have failed, and the broker goes on without it.
            with suppress(OSError):
                path.write_text(f"{os.getpid()}\n{name}\n")
        yield
    finally:
        for path in paths:
            with suppress(OSError):
                path.unlink()


def start_daemon(arguments: list[str], data_directory: str, log_path: Path) -> int:
    """Run `levada ARGUMENTS` in the background and come back when it listens; Refused when it ends before that."""
    if is_running(data_directory):
        raise Refused(
            f"a broker runs in {data_directory} already; stop it with `levada stop --data-dir {data_directory}` first"
        )
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
        return int(Path(data_directory, PID_NAME).read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None


@dataclass(frozen=True, slots=True)
class RunningBroker:
    pid: int
    name: str
    """Its id and where it listens; empty before it does."""
    data_directories: tuple[str, ...]
    seconds: float
    """Since it was started."""


def all_brokers(aliases: str | None = None) -> list[RunningBroker]:
    """The processes of this user that were started by `levada serve`; only by the scripts in a directory, if named."""
    if not Path("/proc/self").exists():
        raise Refused("this system has no /proc to find brokers in: name their --data-dir")
    found = []
    for entry in Path("/proc").iterdir():
        try:
            is_ours = entry.name.isdigit() and entry.stat().st_uid == os.getuid() and _is_broker(entry)
            if is_ours and (aliases is None or was_started_by(entry, aliases)):
                found.append(_describe(entry))
        except OSError:
            # It has ended meanwhile, or is not ours to look at.
            continue
    return sorted(found, key=lambda broker: broker.pid)


def _describe(process: Path) -> RunningBroker:
    pid = int(process.name)
    held = {Path(os.readlink(each)) for each in process.joinpath("fd").iterdir() if each.is_symlink()}
    directories = sorted(str(path.parent) for path in held if path.name == LOCK_NAME and path.exists())
    names = [lines[1] for each in directories if (lines := _noted(each))[:1] == [str(pid)] and len(lines) > 1]
    seconds = time.time() - process.stat().st_ctime
    return RunningBroker(pid, names[0] if names else "", tuple(directories), seconds)


def _noted(data_directory: str) -> list[str]:
    try:
        return Path(data_directory, PID_NAME).read_text().splitlines()
    except OSError:
        return []


def _is_broker(process: Path) -> bool:
    words = process.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
    starts = [place for place, word in enumerate(words[:4]) if Path(word).name == "levada"]
    is_ours = any(canonical_name(words[place + 1]) == "serve" for place in starts if place + 1 < len(words))
    # The one that waits for a daemon to listen is no broker; the daemon itself has its flags, and one more.
    return is_ours and ("--no-daemon" in words or not {"--daemon", "-daemon"} & set(words))


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
