"""How several pieces are handed to a transport in one call."""

import asyncio
from collections.abc import Callable, Iterable

from levada.model.buffers import Buffer


def writelines_of(transport: asyncio.Transport) -> Callable[[Iterable[Buffer]], None]:
    """The transport's own way, but for asyncio's: those pieces are joined, as asyncio itself did before Python 3.12.

    Since then its `writelines` never sends an empty piece at the end, so that the connection cannot close, and until
    3.12.9 and 3.13.2 it does not pause the writer whose reader is slow (CPython's gh-155888, gh-127655).
    """
    if not type(transport).__module__.startswith("asyncio."):
        return transport.writelines

    def write_joined(pieces: Iterable[Buffer]) -> None:
        transport.write(b"".join(pieces))

    return write_joined
