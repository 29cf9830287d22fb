"""What a broker needs of the machine: open files, room on the disk, its port, and a clock that is right."""

import ctypes
import ctypes.util
import os
import resource
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from levada.cli.doctor.findings import Finding, note, ok, risk

ENOUGH_FILES: Final = 10_000
LEAST_FREE_SHARE: Final = 0.10
LEAST_FREE_BYTES: Final = 1 << 30
NETWORK_FILE_SYSTEMS: Final = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "glusterfs", "ceph"})
FUTURE_SECONDS: Final = 60.0
EARLIEST_YEAR: Final = 2025
CONNECT_SECONDS: Final = 2.0
UNSYNCHRONISED: Final = 5
"""What Linux answers when no time service keeps its clock right."""


def check_machine(data_directories: Sequence[Path], listen: tuple[str, int]) -> Iterator[Finding]:
    yield from check_open_files(data_directories)
    for directory in data_directories:
        yield from check_disk(_existing(directory))
    yield from check_port(*listen)
    yield from check_clock(data_directories)
    yield from check_build()


def check_open_files(data_directories: Sequence[Path]) -> Iterator[Finding]:
    from levada.node.limits import FILES_PER_SEGMENT, RESERVED_FILES

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    segments = len(_segments(data_directories))
    wanted = max(segments * FILES_PER_SEGMENT + RESERVED_FILES, ENOUGH_FILES)
    # A broker raises its own soft limit to the hard one.
    if hard >= wanted or hard == resource.RLIM_INFINITY:
        yield ok("open files", f"{hard} allowed, {segments} segments on disk")
        return
    yield risk(
        "open files",
        f"{hard} allowed: connections and {segments} segments want {wanted}",
        f"run `ulimit -n {wanted}` before the broker (the hard limit is {hard}: raise it in limits.conf or the "
        "service's unit)",
    )


def check_disk(place: Path) -> Iterator[Finding]:
    found = os.statvfs(place)
    free, total = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    share = free / total if total else 0.0
    room = f"{free / 2**30:.1f} GiB free of {total / 2**30:.1f} ({share:.0%}) at {place}"
    if free < LEAST_FREE_BYTES or share < LEAST_FREE_SHARE:
        yield risk(
            "disk", room, "free some, or let topics keep less: log.retention.hours, log.retention.bytes per partition"
        )
    else:
        yield ok("disk", room)
    if found.f_files and found.f_favail < ENOUGH_FILES:
        yield risk("disk", f"room for {found.f_favail} more files only", "delete files, or use another file system")
    if not os.access(place, os.W_OK | os.X_OK):
        yield risk("disk", f"{place} cannot be written", "change its owner, or choose another --data-dir")
    kind = file_system_of(place, _mounts())
    if kind in NETWORK_FILE_SYSTEMS:
        yield risk("disk", f"{place} lies on {kind}: locks and syncs cannot be trusted there", "use a local disk")
    elif kind == "tmpfs":
        yield risk("disk", f"{place} lies in memory (tmpfs) and is gone after a restart", "use a disk")


def file_system_of(place: Path, mounts: list[tuple[str, str]]) -> str | None:
    """The kind of the file system with the longest mount point above a place.

    >>> file_system_of(Path("/data/topics"), [("/", "ext4"), ("/data", "nfs4"), ("/database", "xfs")])
    'nfs4'
    """
    above = [(point, kind) for point, kind in mounts if place == Path(point) or Path(point) in place.parents]
    return max(above, key=lambda mount: len(mount[0]))[1] if above else None


def _mounts() -> list[tuple[str, str]]:
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return []
    return [(words[1], words[2]) for words in map(str.split, lines) if len(words) > 2]


def check_port(host: str, port: int) -> Iterator[Finding]:
    where = "port"
    try:
        with socket.create_server((host, port)):
            yield ok(where, f"{host}:{port} is free")
        return
    except OSError as error:
        reason = error.strerror or str(error)
    if _speaks_kafka(host, port):
        yield ok(where, f"a broker answers at {host}:{port}")
    else:
        yield risk(where, f"{host}:{port} cannot be had ({reason})", "stop who has it, or choose another --listen")


def _speaks_kafka(host: str, port: int) -> bool:
    """Asks for the versions of its requests, as every client does first."""
    request = b"\x00\x00\x00\x10\x00\x12\x00\x00\x00\x00\x00\x01\x00\x06levada"
    try:
        with socket.create_connection((host, port), CONNECT_SECONDS) as connection:
            connection.settimeout(CONNECT_SECONDS)
            connection.sendall(request)
            answer = connection.recv(8)
    except OSError:
        return False
    return answer[4:] == b"\x00\x00\x00\x01"


def check_clock(data_directories: Sequence[Path]) -> Iterator[Finding]:
    where = "clock"
    now = time.time()
    if time.gmtime(now).tm_year < EARLIEST_YEAR:
        yield risk(where, f"it says {time.strftime('%Y-%m-%d', time.gmtime(now))}", "set the time")
        return
    latest, path = max(((path.stat().st_mtime, path) for path in _segments(data_directories)), default=(0.0, Path()))
    if latest > now + FUTURE_SECONDS:
        yield risk(
            where,
            f"files in {path.parents[1]} were written {latest - now:.0f} s in the future: it was set back",
            "set the time; retention and time lookups go by it",
        )
    if is_synchronised():
        yield ok(where, "kept right by a time service")
    else:
        yield note(where, "no time service keeps it right, as far as the kernel knows", "run chrony or ntpd")


def is_synchronised() -> bool:
    """What the kernel's clock discipline says; where it says nothing, there is nothing to complain about."""
    library = ctypes.CDLL(ctypes.util.find_library("c"), use_errno=True)
    if not hasattr(library, "adjtimex"):
        return True
    # The structure is 208 bytes on every 64-bit Linux; with all of it 0 the call only reads.
    state: int = library.adjtimex(ctypes.create_string_buffer(512))
    return state != UNSYNCHRONISED


def check_build() -> Iterator[Finding]:
    """What makes the broker slow without an error anywhere."""
    from levada.records import COMPILED
    from levada.world.real import loop_name

    if not COMPILED:
        yield note("build", "the compiled kernel is missing, so the broker is slow", "install levada from a wheel")
    if loop_name() != "uvloop":
        yield note("build", "uvloop is missing, so the broker is slower", "pip install uvloop")


def _segments(data_directories: Sequence[Path]) -> list[Path]:
    return [path for directory in data_directories for path in directory.glob("*/*.log")]


def _existing(path: Path) -> Path:
    """The directory, or the nearest one above it that is there."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path
