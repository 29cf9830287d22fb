"""A fetch that found too little: it waits for enough bytes to be appended, or for its time to be up."""

import asyncio
from collections.abc import Iterable

from penstock.broker.partition import Partition


async def wait_for_bytes(partitions: Iterable[Partition], missing_bytes: int, max_wait_ms: int) -> None:
    """Return when `missing_bytes` more were appended to the partitions, or after `max_wait_ms`."""
    loop = asyncio.get_running_loop()
    enough: asyncio.Future[None] = loop.create_future()
    remaining = missing_bytes

    def on_append(size: int) -> None:
        nonlocal remaining
        remaining -= size
        if remaining <= 0:
            give_up()

    def give_up() -> None:
        if not enough.done():
            enough.set_result(None)

    watched = list(partitions)
    for partition in watched:
        partition.listen(on_append)
    timer = loop.call_later(max_wait_ms / 1000, give_up)
    try:
        await enough
    finally:
        timer.cancel()
        for partition in watched:
            partition.unlisten(on_append)
