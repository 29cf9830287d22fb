"""kazoo's client, awaited from an event loop: requests, transactions and watches of one ZooKeeper session.

kazoo runs threads of its own. What they have to tell comes to the loop by `call_soon_threadsafe`, in the order in which
the server has said it: that a new session began is known before anything is heard of what was asked in it.

A failed transaction is no exception in kazoo but a list of them; here it is the number of the operation that failed. A
request without an answer, because the connection broke or the session ended, may have been carried out or not. Those
that can do no harm twice are repeated; of others the caller is told by `LostReply`.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from levada.doors.zookeeper_watchdog import LoopWatchdog
from levada.metadata.door import DoorError

try:
    from kazoo import exceptions
    from kazoo.client import KazooClient
    from kazoo.protocol.states import KazooState
    from kazoo.retry import KazooRetry
except ImportError:
    raise DoorError("a coordinator in ZooKeeper needs kazoo: pip install 'levada[zookeeper]'") from None

logger = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.1
CLOSE_SECONDS: Final = 5.0
MAX_IN_FLIGHT: Final = 64
"""kazoo wakes its thread by a byte in a pipe for each."""

_NO_ANSWER: Final = (
    exceptions.ConnectionLoss,
    exceptions.SessionExpiredError,
    exceptions.SessionMovedError,
    exceptions.OperationTimeoutError,
    exceptions.RequestTimeoutError,
    exceptions.ThrottledOpError,
    exceptions.NotReadOnlyCallError,
    # What a server says to a transaction of a session that has just expired or moved, after an error of its own.
    exceptions.MarshallingError,
    exceptions.SystemZookeeperError,
)
_REFUSALS: Final = (
    exceptions.BadVersionError,
    exceptions.NodeExistsError,
    exceptions.NoNodeError,
    exceptions.NotEmptyError,
)
_NOT_THE_CAUSE: Final = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
"""What the operations before and behind the one that failed get."""

T = TypeVar("T")
_Begin: TypeAlias = Callable[[], Any]
"""Hands a request to kazoo, and returns its result to come."""


class LostReply(ConnectionError):
    """Nothing was heard of a request: it may have been carried out, now or later, or not."""


class Unreachable(ConnectionError):
    """There is no connection to any server that could be asked."""


@dataclass(frozen=True, slots=True)
class Node:
    data: bytes
    version: int
    owner: int
    """The session that it goes with, 0 if it stays."""
    children: int


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = -1


Operation: TypeAlias = Check | Create | Set | Delete


class Hint:
    """Set when a watch fires, or may have been lost with its connection: reason to look, not what is to be seen."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __call__(self, _event: object) -> None:
        """From kazoo's thread."""
        _post(self._loop, self._event.set)

    def give(self) -> None:
        self._event.set()

    @property
    def is_given(self) -> bool:
        return self._event.is_set()

    def take(self) -> None:
        self._event.clear()

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            pass
        self._event.clear()


class ZooKeeperSession:
    """The session, or those that follow it: one that has expired is replaced by a new one, with another id."""

    def __init__(self, hosts: str, root: str, timeout_ms: int) -> None:
        self._hosts = hosts
        self._root = root
        self.timeout_s = timeout_ms / 1000
        self._loop = asyncio.get_running_loop()
        self._connected = asyncio.Event()
        self._places = asyncio.Semaphore(MAX_IN_FLIGHT)
        self.session_id = 0
        """Of the session that was had last; 0 before the first."""
        kazoo_logger = logging.getLogger(f"{__name__}.kazoo")
        # It tells of every connection that breaks; what that means is told here.
        kazoo_logger.setLevel(logging.ERROR)
        self._kazoo = KazooClient(
            hosts,
            timeout=self.timeout_s,
            connection_retry=KazooRetry(max_tries=-1, delay=0.1, max_delay=0.5),
            check_hostname=True,
            logger=kazoo_logger,
        )
        self._kazoo.add_listener(self._state_changed)
        self._watchdog = LoopWatchdog(timeout_ms, self._close_for_hung_loop, self._has_ended, self._reopen)
        self._closing = threading.Lock()
        self._is_started = self._is_closed = False

    @property
    def where(self) -> str:
        return f"{self._hosts}{self._root}"

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    async def open(self, patience_s: float) -> None:
        """Connect; Unreachable if no server has answered by then, and a later call goes on."""
        if not self._is_started:
            self._is_started = True
            self._kazoo.start_async()
            self._watchdog.start()
        await self.connected(patience_s)

    async def connected(self, patience_s: float) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await self._connected.wait()
        except TimeoutError:
            raise Unreachable(f"no server of ZooKeeper answers at {self._hosts}") from None

    async def close(self) -> None:
        """End the session, so that what goes with it is gone at once."""
        if self._is_closed:
            return
        self._is_closed = True
        self._watchdog.stop()
        ended = asyncio.Event()
        # It waits for threads, and for a server that may not be there.
        threading.Thread(target=self._end, args=(ended,), name="levada-zookeeper-close", daemon=True).start()
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await ended.wait()
        except TimeoutError:
            logger.warning("zookeeper session=0x%x could not be closed, it will expire", self.session_id)

    # Requests

    async def get(self, path: str, hint: Hint | None = None) -> Node | None:
        """A node, None if it is not there; a hint tells when it comes, goes or changes."""
        try:
            data, stat = await self._repeat(lambda: self._kazoo.get_async(self._root + path, watch=hint))
        except exceptions.NoNodeError:
            # Only this leaves a watch where nothing is; what came in between is another round's to get.
            if hint is not None and await self._exists(path, hint):
                hint.give()
            return None
        return Node(data, stat.version, stat.ephemeralOwner, stat.numChildren)

    async def exists(self, path: str) -> bool:
        return await self._exists(path, None)

    async def _exists(self, path: str, hint: Hint | None) -> bool:
        stat = await self._repeat(lambda: self._kazoo.exists_async(self._root + path, watch=hint))
        return stat is not None

    async def get_all(self, paths: Sequence[str]) -> list[Node | None]:
        """Several nodes, asked for at once."""
        return list(await asyncio.gather(*[self.get(path) for path in paths]))

    async def children(self, path: str) -> list[str]:
        try:
            names = await self._repeat(lambda: self._kazoo.get_children_async(self._root + path))
        except exceptions.NoNodeError:
            return []
        return sorted(names)

    async def get_synced(self, path: str, hint: Hint | None = None) -> Node | None:
        """A node as it was when the call began, or later: other reads may come from a server that lags behind."""
        # One after the other on one connection, so the read has seen what the leader had.
        _, node = await asyncio.gather(
            self._repeat(lambda: self._kazoo.sync_async(self._root + path)), self.get(path, hint)
        )
        return node

    async def create(self, path: str, data: bytes = b"") -> bool:
        """Make a node that stays; False if it is there already, perhaps by an answer that was lost."""
        try:
            await self._repeat(lambda: self._kazoo.create_async(self._root + path, data))
        except exceptions.NodeExistsError:
            return False
        return True

    async def make_root(self) -> None:
        """The path below which everything lies, with those above it."""
        names = self._root.split("/")[1:]
        for depth in range(len(names)):
            path = "/" + "/".join(names[: depth + 1])
            with suppress(exceptions.NodeExistsError):
                await self._repeat(lambda path=path: self._kazoo.create_async(path, b""))  # type: ignore[misc]

    async def holds(self, check: Check) -> bool:
        """Whether a node has this version now, by the word of a quorum."""
        (result,) = await self._repeat(lambda: self._begin([check]))
        if isinstance(result, Exception) and not isinstance(result, _REFUSALS):
            raise Unreachable(f"ZooKeeper at {self._hosts} did not answer: {type(result).__name__}")
        return not isinstance(result, Exception)

    async def transact(self, *operations: Operation) -> int | None:
        """All operations or none; the number of the one that failed, None if they were carried out.

        LostReply: it cannot be told. Unreachable: nothing was sent.
        """
        await self.connected(self.timeout_s)
        try:
            results = await self._ask(lambda: self._begin(operations))
        except _NO_ANSWER as error:
            raise LostReply(f"ZooKeeper at {self._hosts} did not answer: {type(error).__name__}") from None
        except TimeoutError:
            raise LostReply(f"ZooKeeper at {self._hosts} does not answer") from None
        for number, result in enumerate(results):
            if isinstance(result, _REFUSALS):
                return number
            if isinstance(result, _NO_ANSWER):
                raise LostReply(f"ZooKeeper at {self._hosts} did not answer: {type(result).__name__}")
            if isinstance(result, Exception) and not isinstance(result, _NOT_THE_CAUSE):
                raise _error(result, operations[number].path)
        return None

    def _begin(self, operations: Sequence[Operation]) -> Any:
        transaction = self._kazoo.transaction()
        for one in operations:
            path = self._root + one.path
            match one:
                case Check():
                    transaction.check(path, one.version)
                case Create():
                    transaction.create(path, one.data, ephemeral=one.is_ephemeral)
                case Set():
                    transaction.set_data(path, one.data, one.version)
                case Delete():
                    transaction.delete(path, one.version)
        return transaction.commit_async()

    async def _repeat(self, begin: _Begin) -> Any:
        """The answer to a request that does no harm twice."""
        try:
            async with asyncio.timeout(self.timeout_s):
                while True:
                    await self._connected.wait()
                    try:
                        return await self._ask(begin)
                    except _NO_ANSWER:
                        await asyncio.sleep(RETRY_SECONDS)
        except TimeoutError:
            raise Unreachable(f"ZooKeeper at {self._hosts} does not answer") from None

    async def _ask(self, begin: _Begin) -> Any:
        async with self._places, asyncio.timeout(self.timeout_s):
            future: asyncio.Future[Any] = self._loop.create_future()
            begin().rawlink(lambda result: _post(self._loop, _settle, future, result))
            try:
                return await future
            except (*_NO_ANSWER, *_REFUSALS):
                raise
            except exceptions.KazooException as error:
                raise _error(error, self._root or "/") from None

    # Of kazoo's threads

    def _state_changed(self, state: str) -> None:
        client_id = self._kazoo.client_id if state == KazooState.CONNECTED else None
        _post(self._loop, self._note_state, state, client_id[0] if client_id else 0)

    def _note_state(self, state: str, session_id: int) -> None:
        if state != KazooState.CONNECTED:
            if not self._is_closed:
                logger.warning("zookeeper session=0x%x state=%s", self.session_id, state.lower())
            self._connected.clear()
            return
        is_new = session_id != self.session_id
        logger.info("zookeeper session=0x%x state=connected%s", session_id, " new=1" if is_new else "")
        self.session_id = session_id
        self._connected.set()

    def _close_for_hung_loop(self) -> None:
        logger.error("zookeeper session=0x%x closed: the event loop stands still", self.session_id)
        with self._closing, suppress(Exception):
            self._kazoo.stop()

    def _has_ended(self) -> bool:
        """Whether kazoo's thread has died of an error; none is there after `stop`."""
        thread = self._kazoo._connection._connection_routine
        return thread is not None and not thread.is_alive()

    def _reopen(self) -> None:
        with self._closing, suppress(Exception):
            if not self._is_closed:
                self._kazoo.start_async()

    def _end(self, ended: asyncio.Event) -> None:
        with self._closing, suppress(Exception):
            self._kazoo.stop()
            self._kazoo.close()
        _post(self._loop, ended.set)


def _settle(future: "asyncio.Future[Any]", result: Any) -> None:
    if future.done():
        # Nothing waits for it any more.
        return
    if result.exception is not None:
        future.set_exception(result.exception)
    else:
        future.set_result(result.value)


def _post(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *arguments: object) -> None:
    """From any thread; a loop that has ended hears nothing."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *arguments)


def _error(error: Exception, path: str) -> DoorError:
    name = type(error).__name__.removesuffix("Error")
    return DoorError(f"ZooKeeper refuses a request for {path}: {name}{f' ({error})' if str(error) else ''}")
