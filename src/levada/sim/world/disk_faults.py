"""Disk errors on order: the next operation of a kind, a share of all, or the whole process at a certain one."""

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from errno import EIO


@dataclass(slots=True)
class _Planned:
    operation: str
    path_part: str
    error: int
    count: int


class DiskFaults:
    """Operations are named as the methods of Disk and File: append, read, sync, truncate, open, rename, ..."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._planned: list[_Planned] = []
        self._probability: dict[str, float] = {}
        self._operations_left = 0
        self._crashing: str | None = None
        self._at_crash_point: Callable[[], None] | None = None

    def fail_next(self, operation: str, *, path_part: str = "", error: int = EIO, count: int = 1) -> None:
        """Let the next `count` operations of this kind on paths that contain `path_part` fail."""
        self._planned.append(_Planned(operation, path_part, error, count))

    def fail_randomly(self, operation: str, probability: float) -> None:
        """Let each operation of this kind fail with EIO by chance; probability 0 ends it."""
        self._probability[operation] = probability

    def crash_at(self, operations: int, crash: Callable[[], None], process: str | None = None) -> None:
        """Call `crash` before the operation that follows `operations` more ones: a death between two writes.

        With a process, its operations alone are counted.
        """
        self._operations_left = operations
        self._crashing = process
        self._at_crash_point = crash

    def calm(self) -> None:
        """None of what was ordered comes any more."""
        self._planned.clear()
        self._probability.clear()
        self.call_off()

    def call_off(self) -> None:
        """No crash at a certain operation any more."""
        self._at_crash_point = None

    def before_operation(self, process: str) -> None:
        if self._at_crash_point is None or self._crashing not in (None, process):
            return
        if self._operations_left > 0:
            self._operations_left -= 1
            return
        crash, self._at_crash_point = self._at_crash_point, None
        crash()

    def check(self, operation: str, path: str) -> None:
        """Raise the OSError that is due."""
        for planned in self._planned:
            if planned.operation == operation and planned.path_part in path:
                planned.count -= 1
                if not planned.count:
                    self._planned.remove(planned)
                raise OSError(planned.error, os.strerror(planned.error), path)
        probability = self._probability.get(operation, 0.0)
        if probability and self._chance.random() < probability:
            raise OSError(EIO, os.strerror(EIO), path)
