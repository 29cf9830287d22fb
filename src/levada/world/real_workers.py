"""Worker processes, exec'd and never forked, that take one task at a time."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from levada.world.worker_process import DONE, LENGTH, encode_request
from levada.world.workers import WorkerError

EXIT_TIMEOUT_S: Final = 5.0

T = TypeVar("T")


class RealWorkers:
    """At most `limit` children, started when first needed and kept for the next task."""

    def __init__(self, limit: int = 1) -> None:
        self._free_slots = asyncio.Semaphore(limit)
        self._idle: list[Process] = []
        self._busy: dict[int, Process] = {}
        self._killed: list[Process] = []
        """Those whose end has not been seen yet."""
        self._closed = False
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="levada-compute")

    async def compute(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def run(self, task: str, argument: bytes) -> bytes:
        async with self._free_slots:
            if self._closed:
                raise WorkerError("the workers are closed")
            worker = await self._take()
            self._busy[worker.pid] = worker
            try:
                reply = await _exchange(worker, encode_request(task, argument))
            except (EOFError, OSError) as error:
                code = await worker.wait()
                raise WorkerError(f"the worker of {task} died with exit code {code}") from error
            except BaseException:
                # Cancelled: the reply still to come must not be taken for that of the next task.
                _kill(worker)
                self._killed = [one for one in (*self._killed, worker) if one.returncode is None]
                raise
            finally:
                del self._busy[worker.pid]
            await self._give_back(worker)
        if reply[:1] != DONE:
            raise WorkerError(f"{task} raised:\n{reply[1:].decode(errors='replace')}")
        return reply[1:]

    async def close(self) -> None:
        """End all children; a task still running fails with WorkerError."""
        self._closed = True
        for worker in self._busy.values():
            _kill(worker)
        idle, self._idle = self._idle, []
        for worker in idle:
            await _end(worker)
        for worker in [*self._busy.values(), *self._killed]:
            await worker.wait()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _give_back(self, worker: Process) -> None:
        if self._closed:
            await _end(worker)
        else:
            self._idle.append(worker)

    async def _take(self) -> Process:
        while self._idle:
            worker = self._idle.pop()
            if worker.returncode is None:
                return worker
        try:
            return await asyncio.create_subprocess_exec(
                # -P: a file in the working directory must not stand in for a module.
                *(sys.executable, "-P", "-m", "levada.world.worker_process"),
                stdin=PIPE,
                stdout=PIPE,
                # The child imports what its parent can import, however the parent's path came about.
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except OSError as error:
            raise WorkerError(f"no worker could be started: {error}") from error


async def _exchange(worker: Process, request: bytes) -> bytes:
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(LENGTH.pack(len(request)))
        worker.stdin.write(request)
    except RuntimeError as error:
        # So uvloop says that one which had nothing to do has died, before its end is known.
        raise BrokenPipeError(str(error)) from error
    await worker.stdin.drain()
    (size,) = LENGTH.unpack(await worker.stdout.readexactly(LENGTH.size))
    return await worker.stdout.readexactly(size)


async def _end(worker: Process) -> None:
    assert worker.stdin is not None
    worker.stdin.close()
    try:
        async with asyncio.timeout(EXIT_TIMEOUT_S):
            await worker.wait()
    except TimeoutError:
        _kill(worker)
        await worker.wait()


def _kill(worker: Process) -> None:
    try:
        worker.kill()
    except ProcessLookupError:
        pass
