"""Opens the connections: sends what a stream says, and checks that what must come of it does."""

import asyncio
import random
from collections.abc import Iterable

from tests.fuzz.streams import KINDS, Outcome, Stream, random_stream

PATIENCE_SECONDS = 60.0
"""A broker that has not done by then what it must is taken to hang."""


class WrongOutcome(Exception):
    """A connection ended otherwise than it must."""


def streams(seed: object, count: int) -> Iterable[Stream]:
    """All kinds in turn; half of the clients leave in the middle."""
    chance = random.Random(f"{seed}")
    kinds = list(KINDS)
    for number in range(count):
        stream = random_stream(chance, kinds[number % len(kinds)])
        # Twice round all kinds, so that each is cut and whole in turn.
        yield stream.cut(chance) if number // len(kinds) % 2 else stream


async def attack(port: int, wanted: Iterable[Stream], at_once: int) -> int:
    """Have so many connections open until every stream had its turn; returns how many there were."""
    waiting = iter(wanted)
    done = 0

    async def work() -> None:
        nonlocal done
        for stream in waiting:
            try:
                await asyncio.wait_for(play(port, stream), PATIENCE_SECONDS)
            except TimeoutError:
                raise WrongOutcome(f"neither answered nor closed: {stream}") from None
            done += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(work())
    return done


async def play(port: int, stream: Stream) -> int:
    """One connection; returns the port it came from, by which the broker's log knows it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    own_port: int = writer.get_extra_info("sockname")[1]
    try:
        try:
            for chunk in stream.chunks:
                writer.write(chunk)
                # The next chunk is the next turn's, so that a drip arrives as one.
                await asyncio.sleep(0)
            if stream.outcome is Outcome.ANY:
                writer.write_eof()
            if stream.outcome is not Outcome.LEFT:
                await _check(stream, reader)
        except OSError:
            # A broker that closes while bytes are on their way resets the connection.
            if stream.outcome is Outcome.ANSWERED:
                raise WrongOutcome(f"reset instead of an answer: {stream}") from None
    finally:
        writer.transport.abort()
    return own_port


async def _check(stream: Stream, reader: asyncio.StreamReader) -> None:
    if stream.outcome is Outcome.ANSWERED:
        try:
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = await reader.readexactly(size)
        except asyncio.IncompleteReadError:
            raise WrongOutcome(f"closed instead of an answer: {stream}") from None
        if not answer.startswith(stream.answer):
            raise WrongOutcome(f"answered {answer[:40].hex()}: {stream}")
        return
    answer = await reader.read()
    if answer and stream.outcome is Outcome.CLOSED:
        raise WrongOutcome(f"answered {answer[:40].hex()} instead of being closed: {stream}")
