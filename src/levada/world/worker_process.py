"""The main of a worker: frames of work on stdin, frames of results on stdout, the end when stdin closes."""

import importlib
import os
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import BinaryIO, Final

from levada.world.disk import Disk
from levada.world.real_disk import RealDisk

LENGTH: Final = struct.Struct(">I")
DONE: Final = b"\x00"
RAISED: Final = b"\x01"

Task = Callable[[bytes, Disk], bytes]


def main() -> None:
    # Ctrl-C and a terminal that closes reach the whole group; the broker decides when to stop, and closes stdin then.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    requests, replies = _take_standard_streams()
    work: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    # A thread of its own reads stdin, so that a worker in the middle of a task also goes when its broker dies.
    threading.Thread(target=_read_requests, args=(requests, work), daemon=True).start()
    disk = RealDisk()
    while True:
        reply = answer(work.get(), disk)
        try:
            replies.write(LENGTH.pack(len(reply)))
            replies.write(reply)
            replies.flush()
        except BrokenPipeError:
            # Its broker died while it worked, and the thread that would have seen it has not come to it yet.
            os._exit(0)


def answer(request: bytes, disk: Disk) -> bytes:
    """Run one request; whatever the task raises becomes a RAISED reply with its traceback."""
    try:
        name, argument = decode_request(request)
        result = resolve_task(name)(argument, disk)
        if not isinstance(result, bytes):
            raise TypeError(f"{name} returned {type(result).__name__}, not bytes")
    except Exception:
        return RAISED + traceback.format_exc().encode(errors="backslashreplace")
    return DONE + result


def encode_request(name: str, argument: bytes) -> bytes:
    encoded_name = name.encode()
    return LENGTH.pack(len(encoded_name)) + encoded_name + argument


def decode_request(request: bytes) -> tuple[str, bytes]:
    end = LENGTH.size + LENGTH.unpack_from(request)[0]
    return request[LENGTH.size : end].decode(), request[end:]


def resolve_task(name: str) -> Task:
    """The function that `package.module:function` names."""
    module_name, separator, function_name = name.partition(":")
    if not separator:
        raise ValueError(f"a task is named package.module:function, not {name!r}")
    task: Task = getattr(importlib.import_module(module_name), function_name)
    return task


def _take_standard_streams() -> tuple[BinaryIO, BinaryIO]:
    """Keep stdin and stdout to ourselves: what a task prints goes to stderr and cannot break the frames."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, replies


def _read_requests(requests: BinaryIO, work: "queue.SimpleQueue[bytes]") -> None:
    while True:
        header = requests.read(LENGTH.size)
        if len(header) == LENGTH.size:
            (size,) = LENGTH.unpack(header)
            request = requests.read(size)
            if len(request) == size:
                work.put(request)
                continue
        sys.stderr.flush()
        os._exit(0)


if __name__ == "__main__":
    main()
