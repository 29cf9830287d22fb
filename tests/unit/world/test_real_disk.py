"""The real disk: what only an operating system can show."""

import asyncio
import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from levada.world import real_disk
from levada.world.disk import SyncFailed, is_out_of_files
from levada.world.real_async_disk import RealAsyncDisk
from levada.world.real_disk import RealDisk, RealFile
from tests.descriptors import no_descriptors_to_spare

LOCK_AND_WAIT = """
import sys
from levada.world.real_disk import RealDisk
lock = RealDisk().lock(sys.argv[1])
print("locked", flush=True)
sys.stdin.read()
"""


def make_file(tmp_path: Path, content: bytes = b"") -> RealFile:
    file = RealDisk().open(str(tmp_path / "log"), create=True)
    file.append([content])
    return file


def drop_from_cache(file: RealFile) -> None:
    descriptor = file.duplicate()
    for _ in range(50):
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if file.read_warm(1 << 20, 1 << 20) is None:
            os.close(descriptor)
            return
        # The advice does not bind the kernel, which keeps pages that another core has in its hands.
        time.sleep(0.02)
    pytest.skip("the kernel keeps the file warm")


def test_warm_bytes_are_read_at_once(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    file = make_file(tmp_path, content)
    if file.read_warm(0, 10) is None:
        pytest.skip("this file system cannot tell warm from cold")
    assert file.read_warm(5, 1000) == content[5:1005]
    assert file.read_warm(0, len(content)) == content
    assert file.read_warm(len(content) - 5, 100) == content[-5:]
    assert file.read_warm(len(content), 100) == b""
    file.close()


def test_cold_bytes_are_left_to_an_io_thread(tmp_path: Path) -> None:
    content = os.urandom(4 << 20)
    file = make_file(tmp_path, content)
    if file.read_warm(0, 10) is None:
        pytest.skip("this file system cannot tell warm from cold")
    file.sync()
    drop_from_cache(file)
    assert file.read(1 << 20, 1 << 20) == content[1 << 20 : 2 << 20]
    assert file.read_warm(1 << 20, 1 << 20) == content[1 << 20 : 2 << 20]
    file.close()


def test_a_read_that_is_warm_only_in_part_is_cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_file(tmp_path, b"x" * 10_000)

    def first_page_only(fd: int, buffers: list[memoryview], position: int, flags: int) -> int:
        buffers[0][:4096] = b"x" * 4096
        return 4096

    monkeypatch.setattr(os, "preadv", first_page_only)
    assert file.read_warm(0, 8192) is None
    file.close()


def test_where_the_flag_is_unsupported_every_read_counts_as_cold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def refuse(*args: object) -> int:
        calls.append(args)
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(os, "preadv", refuse)
    file = make_file(tmp_path, b"bytes")
    assert file.read_warm(0, 5) is None
    assert file.read_warm(0, 5) is None
    assert len(calls) == 1
    assert file.read(0, 5) == b"bytes"
    file.close()


def test_other_read_errors_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "preadv", fail)
    file = make_file(tmp_path, b"bytes")
    with pytest.raises(OSError):
        file.read_warm(0, 5)
    file.close()


def test_a_full_disk_gives_a_short_count_and_then_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = make_file(tmp_path)
    writev = os.writev
    room = 100

    def full_after_room(fd: int, buffers: list[bytes]) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = writev(fd, [b"".join(buffers)[:room]])
        room -= written
        return written

    monkeypatch.setattr(os, "writev", full_after_room)
    monkeypatch.setattr(real_disk, "IOV_MAX", 10)
    assert file.append([b"1234567890"] * 25) == 100
    assert file.size() == 100
    with pytest.raises(OSError) as full:
        file.append([b"1"])
    assert full.value.errno == errno.ENOSPC
    room = 30
    assert file.append([b"1234567890"] * 25) == 30
    file.close()


def test_files_are_not_inherited_by_children(tmp_path: Path) -> None:
    file = make_file(tmp_path)
    descriptor = file.duplicate()
    assert not os.get_inheritable(descriptor)
    assert not os.get_inheritable(file._fd)
    os.close(descriptor)
    file.close()


def test_a_lock_of_another_process_is_respected_and_dies_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    with subprocess.Popen(
        [sys.executable, "-c", LOCK_AND_WAIT, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        with pytest.raises(BlockingIOError):
            RealDisk().lock(path)
        holder.kill()
        holder.wait()
        RealDisk().lock(path).release()


def test_the_async_disk_reads_syncs_and_removes_in_threads(tmp_path: Path) -> None:
    async def main() -> None:
        disk = RealAsyncDisk()
        file = make_file(tmp_path, b"0123456789")
        assert await disk.read(file, 3, 4) == b"3456"
        assert await disk.read(file, 8, 4) == b"89"
        await disk.sync(file)
        await disk.sync_directory(str(tmp_path))
        with pytest.raises(FileNotFoundError):
            await disk.sync_directory(str(tmp_path / "missing"))
        await disk.remove(file.path)
        (tmp_path / "tree" / "inner").mkdir(parents=True)
        await disk.remove_tree(str(tmp_path / "tree"))
        assert os.listdir(tmp_path) == []
        file.close()
        with pytest.raises(OSError):
            await disk.read(file, 0, 1)
        disk.close()

    asyncio.run(main())


def test_a_file_closed_or_a_call_cancelled_during_a_read_harms_no_other_reader(tmp_path: Path) -> None:
    async def main() -> None:
        disk = RealAsyncDisk()
        open_before = len(os.listdir("/proc/self/fd"))
        file = make_file(tmp_path, b"0123456789")
        reads = [asyncio.ensure_future(disk.read(file, 0, 10)) for _ in range(40)]
        await asyncio.sleep(0)
        file.close()
        # A new file would take the number of the closed descriptor.
        other = RealDisk().open(str(tmp_path / "other"), create=True)
        other.append([b"xxxxxxxxxx"])
        for read in reads[::2]:
            read.cancel()
        results = await asyncio.gather(*reads, return_exceptions=True)
        assert set(results[1::2]) == {b"0123456789"}
        disk.close()
        # The last of those that were cancelled are done, and the loop is still to hear of it.
        async with asyncio.timeout(10):
            while file._borrowed:
                await asyncio.sleep(0)
        other.close()
        assert len(os.listdir("/proc/self/fd")) == open_before

    asyncio.run(main())


def test_an_open_file_is_read_and_synced_where_none_can_be_opened(tmp_path: Path) -> None:
    async def main() -> None:
        disk = RealAsyncDisk()
        file = make_file(tmp_path, b"0123456789")
        assert await disk.read(file, 0, 1) == b"0"
        with no_descriptors_to_spare():
            assert await disk.read(file, 3, 4) == b"3456"
            await disk.sync(file)
            with pytest.raises(OSError) as refused:
                await disk.sync_directory(str(tmp_path))
        assert is_out_of_files(refused.value)
        disk.close()
        file.close()

    asyncio.run(main())


def test_what_a_sync_reports_is_not_taken_for_a_want_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    file = make_file(tmp_path)
    monkeypatch.setattr(real_disk, "_sync_data", fail)
    monkeypatch.setattr(os, "fsync", fail)
    for sync in (file.sync, lambda: RealDisk().sync_directory(str(tmp_path))):
        with pytest.raises(SyncFailed) as failed:
            sync()
        assert failed.value.errno == errno.ENOMEM
        assert not is_out_of_files(failed.value)
    file.close()
