"""One life of a broker inside this process: a node on a loop of its own, in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from levada.node import Node
from levada.node.settings import NodeSettings
from levada.testing.connections import GuardedNet
from levada.testing.governed_time import GovernedClock, GovernedLoop, GovernedTime
from levada.testing.owned_disk import OwnedDisk, UnsyncedAsyncDisk
from levada.world.real import RealEntropy
from levada.world.real_workers import RealWorkers
from levada.world.world import World

T = TypeVar("T")

__tracebackhide__ = True

TURNS_OF_THE_DEAD = 3
"""Of the loop, for its sockets to close after a kill."""


class BrokerThread:
    """Started once, then stopped or killed once."""

    def __init__(self, settings: NodeSettings, governed: GovernedTime) -> None:
        self.net = GuardedNet()
        self._governed = governed
        self._settings = settings
        self._disk = OwnedDisk()
        self._async_disk = UnsyncedAsyncDisk()
        self._loop = GovernedLoop(governed, self.net.descriptors)
        self._workers = _AwaitedWorkers(self._loop, settings.config["num.recovery.threads.per.data.dir"])
        self._port: Future[int] = Future()
        self._ended: Future[None] = Future()
        self._is_told_to_stop = asyncio.Event()
        self._is_killed = False
        self._living: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="levada-broker", daemon=True)

    def start(self) -> int:
        """The port it listens on, once it does; what keeps it from starting is raised here."""
        try:
            self._thread.start()
            return self._port.result()
        except BaseException:
            # It has failed, and its loop is closed; or the caller was interrupted, and it would go on without one.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._give_up)
            # One that has not come to run yet cannot be waited for, and gives up when it does.
            with contextlib.suppress(RuntimeError):
                self._thread.join()
            raise

    def call(self, function: Callable[[], T]) -> T:
        """Have the loop run something, and wait for it."""
        outcome: Future[T] = Future()

        def run() -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return outcome.result()

    def stop(self) -> None:
        """End it as SIGTERM would; what goes wrong on the way is raised here."""
        self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()
        self._ended.result()

    def kill(self) -> None:
        """End it as SIGKILL would: nothing of it runs any more, and only what it wrote stays."""
        self._loop.call_soon_threadsafe(self._kill)
        self._thread.join()
        if self._ended.done():
            # It could not be buried, or was not alive any more.
            self._ended.result()

    def _stop(self) -> None:
        # It waits for clients, in their time.
        self._governed.resume()
        self._is_told_to_stop.set()

    def _give_up(self) -> None:
        self._stop()
        if self._living is not None and not self._port.done():
            self._living.cancel()

    def _kill(self) -> None:
        self._governed.resume()
        self._is_killed = True
        self._loop.stop()

    # The thread

    def _run(self) -> None:
        loop = self._loop
        asyncio.set_event_loop(loop)
        self._living = loop.create_task(self._live())
        self._living.add_done_callback(lambda _: loop.stop())
        try:
            loop.run_forever()
            if self._is_killed:
                self._bury()
            else:
                self._end_tasks()
            self._async_disk.close()
        except BaseException as error:
            # The caller that waits for this thread must not wait for ever.
            for outcome in (self._port, self._ended):
                if not outcome.done():
                    outcome.set_exception(error)
        finally:
            if self._is_killed:
                self._disk.release_all()
            asyncio.set_event_loop(None)
            loop.close()

    async def _live(self) -> None:
        clock = GovernedClock(self._governed)
        world = World(clock, RealEntropy(), self._disk, self._async_disk, self.net, self._workers)
        node = Node(world, self._settings)
        try:
            await node.start()
            port = node.port
        except BaseException as error:
            await node.stop()
            self._port.set_exception(error)
            return
        self._port.set_result(port)
        await self._is_told_to_stop.wait()
        try:
            await node.stop()
        except BaseException as error:
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    def _end_tasks(self) -> None:
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())

    def _bury(self) -> None:
        """Drop what was to run, as the loop itself does when it closes, and let go of what the kernel would."""
        self._loop._ready.clear()  # type: ignore[attr-defined]
        self._loop._scheduled.clear()  # type: ignore[attr-defined]
        for task in asyncio.all_tasks(self._loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine: Coroutine[Any, Any, Any] | None = task.get_coro()  # type: ignore[assignment]
            # One that awaits in its `finally` refuses to be closed, and stays where it is.
            with contextlib.suppress(RuntimeError):
                if coroutine is not None:
                    coroutine.close()
        self._loop._ready.clear()  # type: ignore[attr-defined]
        self.net.abandon()
        self._loop.run_until_complete(self._workers.close())
        for _ in range(TURNS_OF_THE_DEAD):
            self._loop.run_until_complete(asyncio.sleep(0))


class _AwaitedWorkers(RealWorkers):
    """Time does not move on while one of them works."""

    def __init__(self, loop: GovernedLoop, limit: int) -> None:
        super().__init__(limit)
        self._loop = loop

    async def run(self, task: str, argument: bytes) -> bytes:
        working = self._loop.create_task(super().run(task, argument))
        self._loop.wait_for(working)
        return await working
