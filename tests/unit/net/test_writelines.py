"""Pieces that leave in one call, on asyncio's own loop and on others."""

import asyncio
import socket
from collections.abc import Iterable

from levada.model.buffers import Buffer
from levada.net.writelines import writelines_of


class Protocol(asyncio.Protocol):
    def __init__(self) -> None:
        self.is_paused = False
        self.lost = asyncio.get_running_loop().create_future()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


async def connected(sock: socket.socket) -> tuple[asyncio.Transport, Protocol]:
    transport, protocol = await asyncio.get_running_loop().create_connection(Protocol, sock=sock)
    return transport, protocol


def test_a_writer_whose_reader_is_slow_is_paused() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            transport, protocol = await connected(ours)
            writelines_of(transport)([b"head", bytes(8_000_000), b"tail"])
            assert protocol.is_paused
            transport.abort()

    asyncio.run(main())


def test_a_connection_closes_after_an_empty_piece() -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            transport, protocol = await connected(ours)
            writelines_of(transport)([b"hello", b""])
            transport.close()
            assert await asyncio.wait_for(protocol.lost, 10) is None
            assert theirs.recv(100) == b"hello"

    asyncio.run(main())


class OtherTransport(asyncio.Transport):
    """Of another loop, which knows better than to copy."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Buffer] = []

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.written += list_of_data


def test_another_loop_gets_the_pieces_as_they_are() -> None:
    transport = OtherTransport()
    pieces: list[Buffer] = [b"a", memoryview(b"b")]
    writelines_of(transport)(pieces)
    assert all(given is piece for given, piece in zip(transport.written, pieces, strict=True))
