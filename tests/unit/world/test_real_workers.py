"""Real worker processes, and how they die."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from levada.world.real_workers import RealWorkers
from levada.world.workers import WorkerError
from tests.unit.world.loops import LOOPS, run_on

TASKS = "tests.unit.world.worker_tasks"

BROKER = """
import asyncio, sys
from levada.world.real_workers import RealWorkers
asyncio.run(RealWorkers().run("tests.unit.world.worker_tasks:note_and_spin", sys.argv[1].encode()))
"""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pid_in(path: Path) -> int | None:
    text = path.read_text() if path.exists() else ""
    return int(text) if text else None


async def wait_gone(pid: int) -> None:
    await wait_until(lambda: not is_running(pid))


async def wait_for_pid(path: Path) -> int:
    await wait_until(lambda: pid_in(path) is not None)
    return pid_in(path) or 0


async def wait_until(is_true: Callable[[], bool]) -> None:
    while not is_true():
        await asyncio.sleep(0.005)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_worker_answers_again_and_again(loop: str) -> None:
    async def main() -> None:
        workers = RealWorkers()
        first = await workers.run(f"{TASKS}:process_id", b"")
        assert int(first) != os.getpid()
        big = os.urandom(3 << 20)
        assert await workers.run(f"{TASKS}:reverse", big) == big[::-1]
        assert await workers.run(f"{TASKS}:reverse", b"") == b""
        assert await workers.run(f"{TASKS}:print_and_read", b"") == b""
        assert await workers.run(f"{TASKS}:process_id", b"") == first
        await workers.close()
        await wait_gone(int(first))
        with pytest.raises(WorkerError):
            await workers.run(f"{TASKS}:reverse", b"")

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_failed_task_is_an_error_and_the_worker_lives_on(loop: str) -> None:
    async def main() -> None:
        workers = RealWorkers()
        pid = await workers.run(f"{TASKS}:process_id", b"")
        for task, reason in (
            (f"{TASKS}:fail", "ValueError: too bad"),
            (f"{TASKS}:answer_nothing", "not bytes"),
            (f"{TASKS}:missing", "AttributeError"),
            ("no.such.module:task", "ModuleNotFoundError"),
            ("nonsense", "ValueError"),
        ):
            with pytest.raises(WorkerError, match=reason):
                await workers.run(task, b"too bad")
        assert await workers.run(f"{TASKS}:process_id", b"") == pid
        await workers.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_after_a_worker_died_the_next_run_works(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        workers = RealWorkers()
        with pytest.raises(WorkerError, match="died with exit code -9"):
            await workers.run(f"{TASKS}:die", b"")
        assert await workers.run(f"{TASKS}:reverse", b"ab") == b"ba"
        # From outside, in the middle of a task.
        path = tmp_path / "pid"
        running = asyncio.ensure_future(workers.run(f"{TASKS}:note_and_spin", str(path).encode()))
        os.kill(await wait_for_pid(path), 9)
        with pytest.raises(WorkerError, match="died"):
            await running
        # Between tasks: no caller has to see it.
        pid = int(await workers.run(f"{TASKS}:process_id", b""))
        os.kill(pid, 9)
        await wait_gone(pid)
        await asyncio.sleep(0.05)
        assert await workers.run(f"{TASKS}:reverse", b"ab") == b"ba"
        await workers.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_worker_that_dies_just_before_its_next_task_is_a_worker_error_at_most(loop: str) -> None:
    async def main() -> None:
        workers = RealWorkers()
        for number in range(20):
            pid = int(await workers.run(f"{TASKS}:process_id", b""))
            os.kill(pid, 9)
            # Its death is noticed in several steps, and the task may come between any two.
            await asyncio.sleep(number * 0.000_2)
            try:
                assert await workers.run(f"{TASKS}:reverse", b"ab") == b"ba"
            except WorkerError as error:
                told = str(error)
                assert "died" in told
        await workers.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_cancelled_task_ends_its_worker(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        workers = RealWorkers()
        path = tmp_path / "pid"
        running = asyncio.ensure_future(workers.run(f"{TASKS}:note_and_spin", str(path).encode()))
        pid = await wait_for_pid(path)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await workers.run(f"{TASKS}:reverse", b"ab") == b"ba"
        await wait_gone(pid)
        await workers.close()

    run_on(loop, main())


@pytest.mark.parametrize("loop", LOOPS)
def test_closing_fails_the_running_task_and_ends_all_workers(loop: str, tmp_path: Path) -> None:
    async def main() -> None:
        workers = RealWorkers(limit=2)
        path = tmp_path / "pid"
        running = asyncio.ensure_future(workers.run(f"{TASKS}:note_and_spin", str(path).encode()))
        pid = await wait_for_pid(path)
        idle = int(await workers.run(f"{TASKS}:process_id", b""))
        assert idle != pid
        await workers.close()
        with pytest.raises(WorkerError):
            await running
        await wait_gone(pid)
        await wait_gone(idle)

    run_on(loop, main())


def test_there_are_never_more_workers_than_allowed() -> None:
    async def main() -> None:
        workers = RealWorkers(limit=2)
        pids = await asyncio.gather(*[workers.run(f"{TASKS}:process_id", b"") for _ in range(8)])
        assert len(set(pids)) <= 2
        await workers.close()

    asyncio.run(main())


def test_a_busy_worker_exits_when_its_broker_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "pid"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "-c", BROKER, str(path)], env=environment) as broker:
        pid = asyncio.run(asyncio.wait_for(wait_for_pid(path), 20))
        assert is_running(pid)
        broker.kill()
        broker.wait()
        asyncio.run(asyncio.wait_for(wait_gone(pid), 10))
