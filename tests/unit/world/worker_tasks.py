"""Tasks for worker processes under test."""

import os
import time

from levada.world.disk import Disk


def reverse(argument: bytes, disk: Disk) -> bytes:
    return argument[::-1]


def process_id(argument: bytes, disk: Disk) -> bytes:
    return str(os.getpid()).encode()


def fail(argument: bytes, disk: Disk) -> bytes:
    raise ValueError(argument.decode())


def answer_nothing(argument: bytes, disk: Disk) -> bytes:
    return None  # type: ignore[return-value]


def die(argument: bytes, disk: Disk) -> bytes:
    os.kill(os.getpid(), 9)
    return b""


def print_and_read(argument: bytes, disk: Disk) -> bytes:
    print("this must not get between the frames")
    os.write(1, b"nor this")
    return os.read(0, 10)


def note_and_spin(argument: bytes, disk: Disk) -> bytes:
    """Leave the process id in a file, then compute without end."""
    disk.open(argument.decode(), create=True).append([str(os.getpid()).encode()])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        pass
    return b""
