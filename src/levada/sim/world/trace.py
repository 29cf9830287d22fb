"""The fingerprint of a run: a hash over every message and disk operation with its virtual time."""

import hashlib
from collections.abc import Callable

from levada.model.buffers import Buffer

NANOSECONDS_PER_MS = 1_000_000


class Trace:
    """Two runs with equal digests did the same things at the same times; the lines say what, when recording."""

    __slots__ = ("_hash", "count", "lines", "now_ns")

    def __init__(self, now_ns: Callable[[], int], *, recording: bool = False) -> None:
        self._hash = hashlib.blake2b(digest_size=16)
        self.now_ns = now_ns
        self.count = 0
        self.lines: list[str] | None = [] if recording else None

    def note(self, event: str, data: Buffer = b"") -> None:
        now_ns = self.now_ns()
        self.count += 1
        self._hash.update(b"%d %s %d\n" % (now_ns, event.encode(), len(data)))
        if data:
            self._hash.update(data)
        if self.lines is not None:
            size = f" ({len(data)} bytes)" if data else ""
            self.lines.append(f"{now_ns / NANOSECONDS_PER_MS:15.6f} {event}{size}")

    def digest(self) -> str:
        return self._hash.hexdigest()
