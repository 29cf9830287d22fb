"""The door to files: what storage may ask of a disk, and a range of a file on its way to a socket."""

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from levada.model.buffers import Buffer

GONE: Final = frozenset(
    (errno.ENOENT, errno.ENOTDIR, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.ESTALE, errno.ENOTCONN, errno.EACCES)
)
"""Errors of a directory that was removed, unmounted, or made read-only: trying again does not help."""


FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT))
NOT_OPENED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOMEM))


class SyncFailed(OSError):
    """The device did not take what was written. A later sync may pass all the same, without the lost pages."""


def is_gone(error: OSError) -> bool:
    """Whether an error says that the place itself cannot be used any more, unlike one of a full disk."""
    return error.errno in GONE


def is_out_of_files(error: OSError) -> bool:
    """Whether the process or the machine had no descriptor or memory to spare: nothing was done, and it may be later.

    The same error of a sync is none of these: that one has lost pages.
    """
    return error.errno in NOT_OPENED and not isinstance(error, SyncFailed)


def is_passing(error: OSError) -> bool:
    """The same, or the disk was full: later there may be room."""
    return is_out_of_files(error) or (error.errno in FULL and not isinstance(error, SyncFailed))


class File(Protocol):
    """An open file. Positions are explicit; nothing moves a cursor."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def modified_ms(self) -> int:
        """When the file was last written, by the wall clock."""
        ...

    def set_modified_ms(self, modified_ms: int) -> None:
        """Say that it was last written then; the next write says otherwise."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def read_warm(self, position: int, size: int, into: bytearray | None = None) -> Buffer | None:
        """The same if no byte of it has to come from the device, else None at once; perhaps as a view of `into`."""
        ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end in one call; the count is short when the disk took only a part."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return once all bytes are on the device; SyncFailed if the device did not take them."""
        ...

    def close(self) -> None: ...


class DirectoryLock(Protocol):
    """An exclusive claim on a directory, gone with the process that holds it."""

    def release(self) -> None: ...


class Disk(Protocol):
    """A file system. Errors are OSError, names come sorted, and directory changes last after `sync_directory`."""

    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> File:
        """`exclusive` creates a file that must not be there yet: of several who try at once, one succeeds."""
        ...

    def names(self, path: str) -> list[str]: ...

    def exists(self, path: str) -> bool: ...

    def make_directories(self, path: str) -> None: ...

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def sync_directory(self, path: str) -> None:
        """SyncFailed if the device did not take it; another OSError if the directory could not be opened."""
        ...

    def absolute(self, path: str) -> str: ...

    def space(self, path: str) -> tuple[int, int]:
        """The size of the file system a path is on, and what of it can still be used, in bytes."""
        ...

    def network_file_system(self, path: str) -> str | None:
        """The kind of file system a path is on, if other machines can write to it too."""
        ...

    def lock(self, path: str) -> DirectoryLock:
        """Claim the lock file at `path`, creating it; BlockingIOError when another process has it."""
        ...


class AsyncDisk(Protocol):
    """The slow calls of a disk, off the event loop."""

    async def read(self, file: File, position: int, size: int) -> bytes: ...

    async def sync(self, file: File) -> None: ...

    async def sync_directory(self, path: str) -> None: ...

    async def remove(self, path: str) -> None: ...

    async def remove_tree(self, path: str) -> None: ...


@dataclass(slots=True)
class FileRange:
    """Bytes that stay in their file until a socket has room for them."""

    file: File
    position: int
    size: int

    def __len__(self) -> int:
        return self.size
