"""How handlers ask a coordinator: the reply at once where it is there, else as soon as it counts."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from levada.broker.coordinators import Coordinator, Operation
from levada.coordination.shard import Machine
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError

M = TypeVar("M", bound=Machine)
Reply = TypeVar("Reply")
Response = TypeVar("Response")


def call_coordinator(
    coordinator: Coordinator[M],
    identifier: str,
    operation: Operation[M, Reply],
    answer: Callable[[Reply], Response],
    refuse: Callable[[ErrorCode], Response],
) -> Response | Awaitable[Response]:
    """`answer` makes a response of what the coordinator says, `refuse` of the error where there is no coordinator."""
    try:
        future = coordinator.submit(identifier, operation)
        # A task for each heartbeat would cost more than the heartbeat.
        return answer(future.result()) if future.done() else _later(future, answer, refuse)
    except ApiError as error:
        return refuse(error.code)


async def _later(
    future: "asyncio.Future[Reply]", answer: Callable[[Reply], Response], refuse: Callable[[ErrorCode], Response]
) -> Response:
    try:
        return answer(await future)
    except ApiError as error:
        return refuse(error.code)
