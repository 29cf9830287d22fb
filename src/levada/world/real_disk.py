"""The real file system behind the Disk door: plain system calls, no buffering of our own."""

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from levada.model.buffers import Buffer
from levada.world.disk import SyncFailed, is_out_of_files

IOV_MAX: Final = os.sysconf("SC_IOV_MAX")
_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
_NOWAIT_REFUSED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS})
NETWORK_FILE_SYSTEMS: Final = frozenset(
    ("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "lustre", "sshfs", "s3fs", "beegfs", "gpfs")
)
_sync_data = getattr(os, "fdatasync", os.fsync)


def sync_descriptor(fd: int) -> None:
    """The data of a file, and of what describes it only what is needed to find the data."""
    try:
        _sync_data(fd)
    except OSError as error:
        raise SyncFailed(error.errno, error.strerror) from error


class RealFile:
    """An open file.

    It is opened with O_APPEND, so the kernel finds the end at each write: no position of ours can disagree with the
    file after a short write, a truncation or a second handle.
    """

    __slots__ = ("_borrowed", "_fd", "_left_open", "_nowait", "_path")

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._nowait = _NOWAIT
        self._borrowed = 0
        self._left_open = -1
        """The descriptor of a file that was closed while a thread was at it."""

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def modified_ms(self) -> int:
        return os.fstat(self._fd).st_mtime_ns // 1_000_000

    def set_modified_ms(self, modified_ms: int) -> None:
        os.utime(self._fd, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def read(self, position: int, size: int) -> bytes:
        return read_fully(self._fd, position, size)

    def read_warm(self, position: int, size: int, into: bytearray | None = None) -> Buffer | None:
        if self._nowait is None:
            # The kernel cannot tell warm from cold here (tmpfs, overlayfs): the caller's I/O thread reads everything.
            return None
        # Zero-filled, so its pages are there: without waiting, the kernel fills fresh ones slowly.
        data: bytearray | memoryview = bytearray(size) if into is None else memoryview(into)[:size]
        try:
            count = os.preadv(self._fd, (data,), position, self._nowait)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NOWAIT_REFUSED:
                raise
            self._nowait = None
            return None
        if count == size:
            return data
        if position + count < self.size():
            # The kernel stops at the first cold page.
            return None
        return memoryview(data)[:count]

    def append(self, buffers: Sequence[Buffer]) -> int:
        if len(buffers) <= IOV_MAX:
            return os.writev(self._fd, buffers)
        written = 0
        for start in range(0, len(buffers), IOV_MAX):
            part = buffers[start : start + IOV_MAX]
            try:
                count = os.writev(self._fd, part)
            except OSError:
                if written:
                    # The bytes are in the file: a short count tells the truth, and the next append meets the error.
                    return written
                raise
            written += count
            if count < sum(memoryview(buffer).nbytes for buffer in part):
                break
        return written

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def sync(self) -> None:
        sync_descriptor(self._fd)

    def close(self) -> None:
        if self._fd < 0:
            return
        fd, self._fd = self._fd, -1
        if self._borrowed:
            self._left_open = fd
        else:
            os.close(fd)

    def __del__(self) -> None:
        # A connection that still sends from a file keeps it open, long after its log has let go of it.
        self.abandon()

    def abandon(self) -> None:
        """Close it though a thread has borrowed it, which has ended or will never give it back."""
        self._borrowed = 0
        self.close()
        if self._left_open >= 0:
            fd, self._left_open = self._left_open, -1
            os.close(fd)

    def borrow(self) -> int:
        """The descriptor for a thread: it stays open until it is given back, though the file be closed.

        Not a duplicate: there may be none to spare, and what must be synced must not depend on it.
        """
        if self._fd < 0:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)
        self._borrowed += 1
        return self._fd

    def give_back(self) -> None:
        """In the thread that borrowed it for another."""
        self._borrowed -= 1
        if not self._borrowed and self._left_open >= 0:
            fd, self._left_open = self._left_open, -1
            os.close(fd)

    def duplicate(self) -> int:
        """A descriptor of its own."""
        return os.dup(self._fd)


class RealLock:
    """A locked file; the kernel lets go when the descriptor closes, also with the process."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        # The file stays: removing it would let two processes lock two files of the same name.
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)


class RealDisk:
    def open(self, path: str, *, create: bool = False, exclusive: bool = False) -> RealFile:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        flags |= os.O_EXCL if exclusive else 0
        return RealFile(path, os.open(path, flags, 0o644))

    def names(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        try:
            os.stat(path)
        except OSError as error:
            if is_out_of_files(error):
                # It cannot be known.
                raise
            return False
        return True

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def sync_directory(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        except OSError as error:
            raise SyncFailed(error.errno, error.strerror, path) from error
        finally:
            os.close(fd)

    def absolute(self, path: str) -> str:
        return os.path.abspath(path)

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def network_file_system(self, path: str) -> str | None:
        try:
            mounts = Path("/proc/self/mounts").read_text().splitlines()
        except OSError:
            return None
        path = os.path.realpath(path)
        # Of the mounts a path lies under, the longest is the one it is on.
        on = max((m for m in map(str.split, mounts) if _is_under(path, m[1])), key=lambda m: len(m[1]), default=None)
        return on[2] if on is not None and on[2].removeprefix("fuse.") in NETWORK_FILE_SYSTEMS else None

    def lock(self, path: str) -> RealLock:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return RealLock(fd)


def _is_under(path: str, mount: str) -> bool:
    # The kernel writes blanks in names as octal escapes.
    mount = mount.replace("\\040", " ")
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def read_fully(fd: int, position: int, size: int) -> bytes:
    """pread until `size` bytes or the end of the file; one system call when the bytes are there."""
    data = os.pread(fd, size, position)
    if len(data) == size or not data:
        return data
    parts = [data]
    read = len(data)
    while read < size and (data := os.pread(fd, size - read, position + read)):
        parts.append(data)
        read += len(data)
    return b"".join(parts)
