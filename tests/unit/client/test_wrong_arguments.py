"""Every call of the clients, given what it cannot take: an error that names the argument, and nothing left behind.

But for sends, which are too many to be looked at: what they say is in tests/integration/test_wrong_records.py.
"""

import asyncio
import gc
import inspect
import math
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import levada
from levada import aio
from levada.client.admin import ConfigResource

NOWHERE = "localhost:1"
"""Nothing listens there: what is of the wrong kind must be told before any broker is asked."""
OPTIONS: dict[str, dict[str, Any]] = {"Consumer": {"group_id": "g"}, "Producer": {"transactional_id": "t"}, "Admin": {}}

SENDS = {"send", "send_many", "send_arrow"}
INSIDE = {"new_front", "try_put", "put", "prepare", "bulk", "rows", "wait_for_room", "abort_after", "forked"}
"""What the blocking producer uses of the other."""
FREE = {("subscribe", "listener")}
"""Any object with the right methods."""
CALLS = {
    (name, call): [parameter for parameter in inspect.signature(method).parameters if parameter != "self"]
    for name in levada.CLIENTS
    for call, method in inspect.getmembers(getattr(aio, name), inspect.isfunction)
    if not call.startswith("_") and call not in SENDS | INSIDE
}


class Strange:
    """Of no kind that any call takes."""


@pytest.fixture(scope="module", autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """A coroutine that was not awaited is a warning when it is collected, and a warning is an error."""
    yield
    gc.collect()


@asynccontextmanager
async def client_of(package: Any, name: str) -> AsyncIterator[Any]:
    client = getattr(package, name)(NOWHERE, **OPTIONS[name])
    yield client
    closed = client.close()
    if inspect.isawaitable(closed):
        await closed


async def refusal(client: Any, call: str, **arguments: Any) -> Exception:
    try:
        found = getattr(client, call)(**arguments)
        if inspect.isawaitable(found):
            await found
    except Exception as error:
        return error
    raise AssertionError(f"{call} took {arguments}")


@pytest.mark.parametrize("package", [levada, aio], ids=["blocking", "asyncio"])
@pytest.mark.parametrize(("name", "call"), CALLS)
def test_an_argument_that_makes_no_sense_is_named_and_does_no_harm(package: Any, name: str, call: str) -> None:
    async def scenario() -> None:
        async with client_of(package, name) as client:
            # Twice, since the first must not have left anything behind.
            for parameter in CALLS[name, call] * 2:
                if (call, parameter) in FREE:
                    continue
                error = await refusal(client, call, **{parameter: Strange()})
                assert type(error) is TypeError
                assert parameter in str(error)
                assert "Strange" in str(error)
                if parameter.startswith("timeout"):
                    for wrong in (-1, math.nan, -math.inf):
                        error = await refusal(client, call, **{parameter: wrong})
                        assert type(error) is ValueError
                        assert f"{parameter} must be a number from 0 on" in str(error)

    asyncio.run(scenario())


@pytest.mark.parametrize("package", [levada, aio], ids=["blocking", "asyncio"])
def test_a_resource_of_no_known_kind_is_refused_by_name(package: Any) -> None:
    async def scenario() -> None:
        unknown: Any = ConfigResource(99, "x")  # type: ignore[arg-type]
        async with client_of(package, "Admin") as admin:
            for call, argument in (
                ("describe_configs", {"resources": [unknown]}),
                ("alter_configs", {"configs": {unknown: {}}}),
                ("incremental_alter_configs", {"changes": {unknown: {}}}),
            ):
                error = await refusal(admin, call, **argument)
                assert type(error) is TypeError
                assert f"{call}(): {next(iter(argument))} must be" in str(error)
                assert "kind=99" in str(error)

    asyncio.run(scenario())


def test_there_are_calls_to_be_looked_at() -> None:
    assert len(CALLS) > 80
