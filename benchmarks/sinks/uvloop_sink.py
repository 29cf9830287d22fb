"""The least a Python server can do for Produce and Fetch: the job of the broker's hot path with nothing around it.

One log file, fixed layouts, no codec, no validation beyond the checksum. `benchmarks.servers` starts it.
"""

import asyncio
import os
import sys
from struct import Struct
from typing import cast

import uvloop
from crc32c import crc32c

PRODUCE = 0
BUFFER_BYTES = 1 << 21
READ_BYTES = 1 << 16
LARGE_BYTES = 1 << 16
"""A reply of this size leaves at once and uncopied; smaller ones leave together."""

PATCHED_SIZE, CRC_AT, CRC_START = 16, 17, 21
TAIL_OF_PRODUCE = 3
"""The empty tag buffers of partition, topic and request."""

HEAD = Struct(">ihhi")
PATCH = Struct(">qii")
UINT32, INT32, INT64 = Struct(">I"), Struct(">i"), Struct(">q")


class Sink(asyncio.BufferedProtocol):
    end_offset = 0

    def __init__(self, path: str, layout: list[str]) -> None:
        records_at, reply, base_offset_at, fetch_offset_at, head, tail, batch_size = layout
        self._fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o644)
        self._records_at = int(records_at)
        self._reply = bytearray.fromhex(reply)
        self._base_offset_at = int(base_offset_at)
        self._fetch_offset_at = int(fetch_offset_at)
        self._head = bytearray.fromhex(head)
        self._tail = bytes.fromhex(tail)
        self._batch_size = int(batch_size)
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._limit = READ_BYTES
        self._replies: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view[self._filled : self._limit]

    def buffer_updated(self, nbytes: int) -> None:
        buffer, start, end = self._buffer, 0, self._filled + nbytes
        self._limit = READ_BYTES
        while end - start >= HEAD.size:
            size, api_key, _, correlation_id = HEAD.unpack_from(buffer, start)
            stop = start + 4 + size
            if stop > end:
                # A large frame is read to its end and no further, so that nothing behind it has to be moved.
                self._limit = max(READ_BYTES, 4 + size)
                break
            if api_key == PRODUCE:
                self._append(start + self._records_at, stop - TAIL_OF_PRODUCE, correlation_id)
            else:
                self._read(start, correlation_id)
            start = stop
        if start < end:
            self._view[: end - start] = self._view[start:end]
        self._filled = end - start
        if self._replies:
            self._transport.write(b"".join(self._replies))
            self._replies.clear()

    def _append(self, start: int, stop: int, correlation_id: int) -> None:
        view = self._view
        (crc,) = UINT32.unpack_from(view, start + CRC_AT)
        if crc32c(view[start + CRC_START : stop]) != crc:
            self._transport.abort()
            return
        offset = Sink.end_offset
        header = PATCH.pack(offset, stop - start - 12, 0)
        if os.writev(self._fd, (header, view[start + PATCHED_SIZE : stop])) != stop - start:
            self._transport.abort()
            return
        Sink.end_offset = offset + 1
        INT32.pack_into(self._reply, 4, correlation_id)
        INT64.pack_into(self._reply, self._base_offset_at, offset)
        self._replies.append(bytes(self._reply))

    def _read(self, start: int, correlation_id: int) -> None:
        (offset,) = INT64.unpack_from(self._buffer, start + self._fetch_offset_at)
        data = os.pread(self._fd, self._batch_size, offset * self._batch_size)
        INT32.pack_into(self._head, 4, correlation_id)
        if self._batch_size < LARGE_BYTES:
            self._replies += (bytes(self._head), data, self._tail)
        else:
            self._transport.writelines((bytes(self._head), data, self._tail))


async def serve(path: str, layout: list[str]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Sink(path, layout), "127.0.0.1", 0)
    print(f"listening on 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1], sys.argv[2:]))
