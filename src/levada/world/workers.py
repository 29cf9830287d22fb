"""The door to other processes, for work that would hold the event loop."""

from typing import Protocol


class Workers(Protocol):
    async def run(self, task: str, argument: bytes) -> bytes:
        """Call `package.module:function(argument, disk)` elsewhere; its failure is raised as WorkerError."""
        ...

    async def close(self) -> None: ...


class WorkerError(Exception):
    """A task raised, or its process died."""
