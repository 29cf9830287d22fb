"""Memory of answers and of what is sent is used again, and never while a view of it is left."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from levada.model.buffers import LENT_BUFFERS, LENT_BYTES, LentBuffers, has_views
from levada.net.channel import Channel
from levada.net.connection import ServerConnection
from levada.net.frames import SCRATCH_SIZE
from levada.net.reply import Reply
from levada.protocol.codec import encode_bytes
from levada.protocol.headers import encode_response_header
from levada.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from levada.world.disk import FileRange
from levada.world.real import run
from levada.world.real_disk import RealDisk
from levada.world.real_net import RealNet
from tests.unit.net.serving import FakeTransport, Server, framed

FETCH_VERSION = 12
REQUEST = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
CHUNK = 1 << 20


def filled(size: int) -> bytearray:
    return bytearray(random.Random(size).randbytes(size))


class Memories:
    """Counts how often memory was used again. It holds the memory itself, which is no view, so that none has its id."""

    def __init__(self) -> None:
        self._known: dict[int, bytearray] = {}
        self.noted = 0

    def note(self, view: Any) -> None:
        """A small answer is no view, and does not count."""
        if isinstance(view, memoryview) and isinstance(view.obj, bytearray):
            self.noted += 1
            self._known[id(view.obj)] = view.obj

    @property
    def reused(self) -> int:
        return self.noted - len(self._known)


# Who looks into it


def test_a_view_of_memory_is_seen_and_nothing_is_changed() -> None:
    memory = filled(1_000)
    before = bytes(memory)
    assert not has_views(memory)
    view = memoryview(memory)
    part = view[10:20]
    kept = part.toreadonly()
    for dropped in (view, part):
        assert has_views(memory)
        dropped.release()
    assert has_views(memory), "a slice outlives the view that it is of"
    kept.release()
    assert not has_views(memory)
    assert memory == before


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 1_000])
def test_memory_of_any_size_can_be_asked(size: int) -> None:
    memory = filled(size)
    before = bytes(memory)
    assert not has_views(memory)
    with memoryview(memory):
        assert has_views(memory)
    assert memory == before


# Lent buffers


def test_nothing_is_there_before_something_was_given() -> None:
    assert LentBuffers().take(1) is None


def test_a_buffer_is_taken_again_once_there_is_no_view_of_it() -> None:
    buffers, buffer = LentBuffers(), bytearray(100)
    view = memoryview(buffer)[50:]
    buffers.give(buffer)
    assert buffers.take(100) is None
    view.release()
    assert buffers.take(100) is buffer
    assert buffers.take(100) is None, "who has taken it has it alone"


def test_a_buffer_that_is_too_small_waits_for_a_smaller_answer() -> None:
    buffers, small, large = LentBuffers(), bytearray(100), bytearray(200)
    buffers.give(small)
    buffers.give(large)
    assert buffers.take(201) is None
    assert buffers.take(101) is large
    assert buffers.take(101) is None
    assert buffers.take(100) is small


def test_one_that_is_in_use_is_passed_over() -> None:
    buffers, used, free = LentBuffers(), bytearray(100), bytearray(100)
    view = memoryview(used)
    buffers.give(used)
    buffers.give(free)
    assert buffers.take(100) is free
    assert buffers.take(100) is None
    view.release()


def test_only_the_last_few_are_kept() -> None:
    buffers = LentBuffers()
    given = [bytearray(100 + number) for number in range(LENT_BUFFERS + 2)]
    for buffer in given:
        buffers.give(buffer)
    taken = [buffers.take(1) for _ in given]
    assert [id(buffer) for buffer in taken[:LENT_BUFFERS]] == [id(buffer) for buffer in given[2:]]
    assert taken[LENT_BUFFERS:] == [None, None]


def test_only_so_many_bytes_are_kept() -> None:
    buffers = LentBuffers()
    first, second, third = (bytearray(LENT_BYTES // 2) for _ in range(3))
    for buffer in (first, second, third):
        buffers.give(buffer)
    assert buffers.take(1) is second
    assert buffers.take(1) is third
    assert buffers.take(1) is None
    buffers.give(bytearray(LENT_BYTES + 1))
    assert buffers.take(1) is None


def test_what_is_borrowed_is_lent_to_the_next_once_there_is_no_view_of_it() -> None:
    buffers = LentBuffers()
    first = buffers.borrow(100)
    view = memoryview(first)
    second = buffers.borrow(100)
    assert second is not first
    assert buffers.borrow(100) is second
    view.release()
    assert buffers.borrow(100) is first
    assert len(buffers.borrow(101)) == 101, "too small ones are passed over"


# A client's answers


class Answering(asyncio.Transport):
    """What is written to it is lost; it is there for the channel to ask."""

    def writelines(self, pieces: Any) -> None:
        pass

    def write(self, data: Any) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def abort(self) -> None:
        raise AssertionError("the channel found an answer broken")


def fetch_answer(correlation_id: int, records: bytes) -> bytes:
    partition = PartitionData(partition_index=0, high_watermark=1, aborted_transactions=None, records=records)
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    header = encode_response_header(correlation_id, has_tags=True)
    return framed(header + encode_bytes(response, FETCH_VERSION))


def records_of(response: FetchResponse) -> Any:
    return response.responses[0].partitions[0].records


def receive(channel: Channel, data: bytes, step: Callable[[], int]) -> None:
    """The bytes as they come from a socket, some at a time."""
    at = 0
    while at < len(data):
        with memoryview(channel.get_buffer(-1)) as buffer:
            count = min(len(buffer), len(data) - at, step())
            buffer[:count] = data[at : at + count]
        channel.buffer_updated(count)
        at += count


@pytest.mark.parametrize("seed", range(6))
def test_answers_that_are_kept_stay_what_they_were(seed: int) -> None:
    chance = random.Random(seed)

    async def main() -> int:
        channel = Channel("test")
        channel.connection_made(Answering())
        kept: list[tuple[Any, bytes]] = []
        memories = Memories()
        for correlation_id in range(1, 150):
            records = chance.randbytes(int(10 ** chance.uniform(3.5, 5.8)))
            future = channel.send(REQUEST, FETCH_VERSION)
            receive(channel, fetch_answer(correlation_id, records), lambda: int(10 ** chance.uniform(2, 6)))
            view = records_of(future.result())
            assert view == records
            memories.note(view)
            # A part is enough to keep all of it.
            start = chance.randrange(len(records))
            kept.append((view[start:], records[start:]))
            chance.shuffle(kept)
            del kept[chance.choice((1, 2, 4, 8)) :]
            assert all(have == want for have, want in kept)
        return memories.reused

    assert asyncio.run(main()) > 10, "memory was hardly ever used again"


def test_an_answer_that_is_not_kept_leaves_its_memory_to_the_next() -> None:
    async def main() -> int:
        channel = Channel("test")
        channel.connection_made(Answering())
        memories = Memories()
        for correlation_id in range(1, 20):
            future = channel.send(REQUEST, FETCH_VERSION)
            receive(channel, fetch_answer(correlation_id, bytes(2 * SCRATCH_SIZE)), lambda: 50_000)
            memories.note(records_of(future.result()))
        return memories.reused

    assert asyncio.run(main()) == 18


def test_several_answers_that_wait_to_be_read_do_not_share_memory() -> None:
    """A caller with many requests under way looks at their answers late."""
    sizes = [SCRATCH_SIZE * factor for factor in (1, 3, 2, 9, 1, 4, 6, 2, 3, 1)]

    async def main() -> None:
        channel = Channel("test")
        channel.connection_made(Answering())
        futures = [channel.send(REQUEST, FETCH_VERSION) for _ in sizes]
        for number, size in enumerate(sizes):
            receive(channel, fetch_answer(number + 1, bytes((number,)) * size), lambda: 100_000)
        for number, (future, size) in enumerate(zip(futures, sizes)):
            assert records_of(future.result()) == bytes((number,)) * size

    asyncio.run(main())


# What a server sends from files


class Keeping(FakeTransport):
    """Sends nothing yet, and keeps the pieces as uvloop does: as views."""

    def __init__(self, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__(protocol)
        self.pieces: list[Any] = []

    def write(self, data: Any) -> None:
        self.pieces.append(data)

    def writelines(self, pieces: Any) -> None:
        self.pieces += pieces

    def leave(self) -> bytes:
        """All that was kept goes out."""
        sent = b"".join(self.pieces)
        self.pieces.clear()
        return sent


def test_what_slow_connections_still_have_to_send_is_not_overwritten(tmp_path: Path) -> None:
    chance = random.Random(5)
    data = chance.randbytes(6 * CHUNK)
    (tmp_path / "file").write_bytes(data)
    file = RealDisk().open(str(tmp_path / "file"))

    def dispatch(frame: memoryview, connection: ServerConnection) -> Reply:
        start, size = (int.from_bytes(frame[at : at + 4], "big") for at in (0, 4))
        return [b"head", FileRange(file, start, size), b"tail"]

    async def main() -> Memories:
        server = Server(dispatch)
        opened = [server.make() for _ in range(6)]
        transports = [Keeping(connection) for connection in opened]
        wanted = [b""] * len(opened)
        memories = Memories()
        for connection, transport in zip(opened, transports):
            connection.connection_made(transport)
        for _ in range(200):
            which = chance.randrange(len(opened))
            if chance.random() < 0.3:
                assert transports[which].leave() == wanted[which]
                wanted[which] = b""
                continue
            size = chance.randrange(1, 2 * CHUNK)
            start = chance.randrange(len(data) - size)
            before = len(transports[which].pieces)
            transports[which].receive(opened[which], framed(start.to_bytes(4, "big") + size.to_bytes(4, "big")))
            async with asyncio.timeout(20):
                # Where the kernel cannot tell what is in memory, a thread reads it.
                while sum(map(len, transports[which].pieces)) < len(wanted[which]) + size + 12:
                    await asyncio.sleep(0.001)
            wanted[which] += framed(b"head" + data[start : start + size] + b"tail")
            for piece in transports[which].pieces[before:]:
                memories.note(piece)
        for transport, rest in zip(transports, wanted):
            assert transport.leave() == rest
        return memories

    memories = asyncio.run(main())
    assert memories.reused > 10 or not memories.noted
    file.close()


def test_readers_that_sip_get_what_is_in_the_file(tmp_path: Path) -> None:
    data = random.Random(6).randbytes(8 * CHUNK)
    (tmp_path / "file").write_bytes(data)
    file = RealDisk().open(str(tmp_path / "file"))

    def dispatch(frame: memoryview, connection: ServerConnection) -> Reply:
        return [FileRange(file, int(bytes(frame)) * CHUNK // 2, 5 * CHUNK)]

    async def read_slowly(server: Server, number: int) -> None:
        reader, writer = await server.connect()
        chance = random.Random(number)
        try:
            for first in (number, 6 - number, number):
                writer.write(framed(b"%d" % first))
                size = int.from_bytes(await reader.readexactly(4), "big")
                start = first * CHUNK // 2
                assert size == 5 * CHUNK
                while size:
                    sip = await reader.read(min(size, chance.randrange(1, 200_000)))
                    assert sip == data[start : start + len(sip)]
                    start += len(sip)
                    size -= len(sip)
                    for _ in range(chance.randrange(4)):
                        await asyncio.sleep(0)
        finally:
            writer.close()

    async def main() -> None:
        async with asyncio.timeout(60), Server(dispatch, net=RealNet()) as server:
            await asyncio.gather(*(read_slowly(server, number) for number in range(6)))

    run(main())
    file.close()
