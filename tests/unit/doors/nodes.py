"""Nodes on one coordinator directory: doors whose calls run to their end, on a disk that things can happen to."""

from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from levada.doors.local import LocalDoor
from levada.metadata.delta import apply
from levada.metadata.door import Token
from levada.metadata.image import Image
from levada.metadata.records import ConfigRecord
from levada.model.buffers import Buffer
from levada.world.disk import File
from levada.world.real_disk import RealDisk, RealFile
from levada.world.world import World

SESSION_MS = 9_000
T = TypeVar("T")


class ManualClock:
    def __init__(self) -> None:
        self.now = 1_000_000

        self.boot = "first boot"

    def awake_ms(self) -> int:
        return self.now

    def boot_id(self) -> str:
        return self.boot


class HookedDisk(RealDisk):
    """A real disk on which something can be made to happen before its next operation of a kind."""

    def __init__(self) -> None:
        self._hooks: list[tuple[str, str, Callable[[], object]]] = []

    def before(self, operation: str, part: str, action: Callable[[], object], *, skipping: int = 0) -> None:
        """Call `action` before an operation on a path with this part, once, after so many others of the kind."""
        self._hooks += [(operation, part, _nothing)] * skipping + [(operation, part, action)]

    def happens(self, operation: str, path: str) -> None:
        for number, (kind, part, action) in enumerate(self._hooks):
            if kind == operation and part in path:
                del self._hooks[number]
                action()
                return

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> "HookedFile":
        self.happens("create" if create else "open", path)
        opened = super().open(path, create=create, exclusive=exclusive)
        return HookedFile(self, path, opened.duplicate())

    def names(self, path: str) -> list[str]:
        self.happens("names", path)
        return super().names(path)

    def sync_directory(self, path: str) -> None:
        self.happens("sync_directory", path)
        super().sync_directory(path)


class HookedFile(RealFile):
    __slots__ = ("_disk",)

    def __init__(self, disk: HookedDisk, path: str, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._disk = disk

    def append(self, buffers: Sequence[Buffer]) -> int:
        try:
            self._disk.happens("append", self.path)
        except ShortWrite as short:
            return super().append([b"".join(buffers)[: short.size]])
        return super().append(buffers)

    def truncate(self, size: int) -> None:
        self._disk.happens("truncate", self.path)
        super().truncate(size)

    def sync(self) -> None:
        self._disk.happens("sync", self.path)
        super().sync()


class ShortWrite(Exception):
    """Lets an append take only so many bytes."""

    def __init__(self, size: int) -> None:
        self.size = size


class _AsyncDisk:
    def __init__(self, disk: HookedDisk) -> None:
        self._disk = disk

    async def sync(self, file: File) -> None:
        file.sync()

    async def sync_directory(self, path: str) -> None:
        self._disk.sync_directory(path)


def failing(error: Exception) -> Callable[[], None]:
    def fail() -> None:
        raise error

    return fail


def _nothing() -> None:
    """Let an operation pass."""


def finish(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of what never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return cast(T, stopped.value)
    raise AssertionError("it waits for something")


class Node:
    """One process: its door, its disk, and the image of all that it has read."""

    def __init__(self, directory: Path, node_id: int, clock: ManualClock, incarnation: str = "") -> None:
        self.disk = HookedDisk()
        world = SimpleNamespace(disk=self.disk, async_disk=_AsyncDisk(self.disk), clock=clock)
        self.door = LocalDoor(cast(World, world), str(directory), node_id, incarnation or f"life-{node_id}", SESSION_MS)
        self.image = Image()
        self.token: Token | None = None
        self.next_offset = 0

    def join(self) -> "Node":
        self.door.open()
        finish(self.door.register())
        return self

    def lead(self) -> "Node":
        """Become the one who writes, and read what was written before."""
        self.token = finish(self.door.campaign())
        assert self.token is not None
        self.read()
        self.next_offset = self.image.offset + 1
        return self

    def write(self, *values: str) -> None:
        assert self.token is not None
        records = [ConfigRecord(resource_type=2, resource_name="log", name=value, value="") for value in values]
        finish(self.door.append(self.token, self.next_offset, records))
        self.next_offset += len(values)

    def read(self) -> list[str]:
        """What this node has read by now, in order."""
        changes = finish(self.door.read(self.image.offset))
        if changes.snapshot is not None:
            self.image = changes.snapshot
        for batch in changes.batches:
            assert batch.base_offset == self.image.offset + 1
            self.image = apply(self.image, batch.records, batch.last_offset)
        return self.seen

    @property
    def seen(self) -> list[str]:
        # Every value is a key of its own, so they stand there in the order in which they were written.
        return list(self.image.config_of(2, "log"))

    def snapshot(self) -> None:
        self.read()
        finish(self.door.write_snapshot(self.image))

    def stop(self) -> None:
        finish(self.door.close())


class Machine:
    """A directory and the nodes that share it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock()

    def node(self, node_id: int = 1) -> Node:
        """A new process, which takes part."""
        return Node(self.directory, node_id, self.clock).join()

    def reader(self) -> list[str]:
        """What a reader sees that comes now and does not take part."""
        node = Node(self.directory, 99, self.clock)
        return node.read()

    def file(self, name: str) -> Path:
        return self.directory / name

    def log(self, epoch: int) -> Path:
        return self.directory / f"log-{epoch:010d}"

    def names(self, prefix: str) -> list[str]:
        return sorted(each.name for each in self.directory.iterdir() if each.name.startswith(prefix))
