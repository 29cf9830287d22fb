"""Long work for one request in pieces, with turns of the loop for others in between."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from levada.broker.route import Request

AT_ONCE = 500
"""Places that a request names which are dealt with in one turn; the largest requests name ten thousands."""

Response = TypeVar("Response")


def after(
    steps: Iterator[None], count: int, request: Request, answer: Callable[[], Response | Awaitable[Response]]
) -> Response | Awaitable[Response]:
    """The answer when all steps are taken: in this turn, unless there is work for several.

    Then no later request of the same client is begun before: it may be about the same places.
    """
    if count > AT_ONCE:
        request.is_held = True
        return _in_turns(steps, answer)
    for _ in steps:
        pass
    return answer()


async def _in_turns(steps: Iterator[None], answer: Callable[[], Response | Awaitable[Response]]) -> Response:
    for _ in steps:
        await asyncio.sleep(0)
    answered = answer()
    return await answered if isinstance(answered, Awaitable) else answered
