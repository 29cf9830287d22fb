"""The door to other processes and threads, for work that would hold the event loop."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Workers(Protocol):
    async def run(self, task: str, argument: bytes) -> bytes:
        """Call `package.module:function(argument, disk)` elsewhere; its failure is raised as WorkerError."""
        ...

    async def compute(self, call: Callable[[], T]) -> T:
        """Make a call in a thread of this process, one after the other, and raise what it raises.

        For what takes some tens of milliseconds and holds no interpreter lock most of that time, as codecs do not.
        """
        ...

    async def close(self) -> None: ...


class WorkerError(Exception):
    """A task raised, or its process died."""
