"""What kazoo's answers to a transaction mean; no server is asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kazoo import exceptions

from levada.doors.zookeeper_session import Check, Create, LostReply, Set, Unreachable, ZooKeeperSession
from levada.metadata.door import DoorError

OPERATIONS = (Check("/a", 1), Set("/b", b"", 2), Create("/c", b""))


def ask(answer: Callable[[], Any], use: Callable[[ZooKeeperSession], Awaitable[Any]]) -> Any:
    """What becomes of a call when kazoo answers so."""

    async def main() -> Any:
        session = ZooKeeperSession("localhost:1", "", 200)

        async def answered(begin: Callable[[], Any]) -> Any:
            return answer()

        session._ask = answered  # type: ignore[method-assign]
        session._connected.set()
        return await use(session)

    return asyncio.run(main())


def transact(answer: Callable[[], Any]) -> Any:
    return ask(answer, lambda session: session.transact(*OPERATIONS))


def raising(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


@pytest.mark.parametrize("failed", [0, 1, 2])
@pytest.mark.parametrize(
    "cause", [exceptions.BadVersionError(), exceptions.NodeExistsError(), exceptions.NoNodeError()], ids=repr
)
def test_a_failed_transaction_names_the_operation_that_failed(failed: int, cause: Exception) -> None:
    """kazoo returns such a list where others would raise."""
    before, behind = exceptions.RolledBackError(), exceptions.RuntimeInconsistency()
    assert transact(lambda: [before] * failed + [cause] + [behind] * (2 - failed)) == failed


def test_a_transaction_that_was_carried_out_names_none() -> None:
    assert transact(lambda: [True, object(), "/c"]) is None


@pytest.mark.parametrize(
    "error",
    [
        exceptions.ConnectionLoss(),
        exceptions.SessionExpiredError(),
        exceptions.ConnectionClosedError(),
        exceptions.SessionMovedError(),
        exceptions.OperationTimeoutError(),
        exceptions.MarshallingError(),
    ],
    ids=repr,
)
def test_what_says_nothing_of_the_outcome_is_a_lost_reply(error: Exception) -> None:
    with pytest.raises(LostReply):
        transact(raising(error))
    with pytest.raises(LostReply):
        transact(lambda: [exceptions.RolledBackError(), error, exceptions.RuntimeInconsistency()])
    with pytest.raises(Unreachable):
        ask(raising(error), lambda session: session.get("/a"))


def test_silence_is_a_lost_reply() -> None:
    with pytest.raises(LostReply):
        transact(raising(TimeoutError()))


def test_what_zookeeper_refuses_for_another_reason_is_named() -> None:
    failed = [exceptions.RolledBackError(), exceptions.NoAuthError(), exceptions.RuntimeInconsistency()]
    with pytest.raises(DoorError, match="ZooKeeper refuses a request for /b: NoAuth"):
        transact(lambda: failed)


@pytest.mark.parametrize(("result", "holds"), [(True, True), (exceptions.BadVersionError(), False)])
def test_a_check_holds_or_not(result: object, holds: bool) -> None:
    assert ask(lambda: [result], lambda session: session.holds(Check("/a", 1))) is holds
    with pytest.raises(Unreachable):
        ask(lambda: [exceptions.SessionMovedError()], lambda session: session.holds(Check("/a", 1)))


def test_nothing_is_sent_without_a_connection() -> None:
    async def main() -> None:
        session = ZooKeeperSession("localhost:1", "", 50)
        with pytest.raises(Unreachable, match="no server of ZooKeeper answers at localhost:1"):
            await session.transact(*OPERATIONS)

    asyncio.run(main())
