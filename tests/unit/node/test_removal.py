"""What deleted topics and retention leave behind goes when it is due, while the event loop does other things."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from levada.node.removal import Removal
from levada.world.real_async_disk import RealAsyncDisk
from levada.world.real_disk import RealDisk

PATIENCE_S = 10


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 2 * PATIENCE_S))


def deleted_log(directory: Path, number: int = 0) -> str:
    path = directory / f"t-{number}.0123456789abcdef-delete"
    path.mkdir()
    (path / f"{0:020d}.log").write_bytes(b"something")
    return str(path)


class Gate:
    """Holds removals of trees until it is opened, and knows which began."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self._is_open = threading.Event()
        remove_tree = RealDisk.remove_tree

        def hold(disk: RealDisk, path: str) -> None:
            self.begun.append(path)
            assert self._is_open.wait(PATIENCE_S), "an opener is held up as well"
            remove_tree(disk, path)

        monkeypatch.setattr(RealDisk, "remove_tree", hold)

    async def reached(self) -> None:
        while not self.begun:
            await asyncio.sleep(0.001)

    def open(self) -> None:
        self._is_open.set()


def test_what_is_due_goes_and_the_rest_waits(tmp_path: Path) -> None:
    async def main() -> None:
        removal = Removal(RealAsyncDisk())
        file = tmp_path / "00000000000000000000.log.deleted"
        file.write_bytes(b"something")
        removal.retire(str(file), 100)
        removal.retire(deleted_log(tmp_path, 0), 100)
        later = deleted_log(tmp_path, 1)
        removal.retire(later, 101)
        await removal.remove_due(99)
        assert len(os.listdir(tmp_path)) == 3
        await removal.remove_due(100)
        assert os.listdir(tmp_path) == [os.path.basename(later)]
        await removal.remove_due(101)
        assert os.listdir(tmp_path) == []

    run(main())


def test_a_removal_does_not_hold_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        gate = Gate(monkeypatch)
        removal = Removal(RealAsyncDisk())
        first, second = deleted_log(tmp_path, 0), deleted_log(tmp_path, 1)
        removal.retire(first, 0)
        removal.begin(0)
        await gate.reached()
        # What comes due meanwhile neither waits here nor takes another thread.
        removal.retire(second, 0)
        removal.begin(0)
        await asyncio.sleep(0.01)
        assert gate.begun == [first]
        gate.open()
        while os.listdir(tmp_path):
            await asyncio.sleep(0.001)
            removal.begin(0)
        assert gate.begun == [first, second]

    run(main())


def test_a_stop_lets_the_directory_under_way_go_and_leaves_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        gate = Gate(monkeypatch)
        removal = Removal(RealAsyncDisk())
        first, second = deleted_log(tmp_path, 0), deleted_log(tmp_path, 1)
        removal.retire(first, 0)
        removal.retire(second, 0)
        removal.begin(0)
        await gate.reached()
        closing = asyncio.ensure_future(removal.close())
        await asyncio.sleep(0.01)
        assert not closing.done()
        gate.open()
        await closing
        assert os.listdir(tmp_path) == [os.path.basename(second)]

    run(main())


def test_a_directory_stays_until_its_new_name_is_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(disk: RealDisk, path: str) -> None:
        raise OSError(f"cannot sync {path}")

    async def main() -> None:
        removal = Removal(RealAsyncDisk())
        removal.retire(deleted_log(tmp_path), 0)
        with monkeypatch.context() as patch:
            patch.setattr(RealDisk, "sync_directory", fail)
            await removal.remove_due(0)
        assert len(os.listdir(tmp_path)) == 1
        assert "cannot sync" in caplog.text
        await removal.remove_due(0)
        assert os.listdir(tmp_path) == []

    run(main())


def test_what_cannot_be_removed_keeps_nothing_else_from_going(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        removal = Removal(RealAsyncDisk())
        removal.retire(str(tmp_path / "gone-with-its-directory.log.deleted"), 0)
        (tmp_path / "strange.log.deleted").mkdir()
        removal.retire(str(tmp_path / "strange.log.deleted"), 0)
        removal.retire(deleted_log(tmp_path), 0)
        await removal.remove_due(0)
        assert os.listdir(tmp_path) == ["strange.log.deleted"]

    run(main())
    assert [
        record.getMessage().partition(" reason")[0] for record in caplog.records if record.levelname == "ERROR"
    ] == [f"cannot remove file={tmp_path}/strange.log.deleted"]
