"""A proxy in front of a broker that reads the frames that pass, and does to some what networks and brokers may do."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.headers import decode_request_header, encode_response_header, response_has_tags, skip_tags
from levada.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

START_SECONDS = 10
PRODUCE_FLEXIBLE_SINCE = 9


class Fault(Enum):
    REFUSE = auto()
    """The broker never sees it; the answer is NOT_ENOUGH_REPLICAS."""
    LOSE_ANSWER = auto()
    """The broker does it, and the connection is cut before its answer comes back."""
    LOSE_REQUEST = auto()
    """The connection is cut before the broker sees it."""
    HOLD_ANSWER = auto()
    """The broker does it, and its answer is kept until the client hangs up."""
    GARBLE_ANSWER = auto()
    """The broker does it, and its answer makes no sense."""


@dataclass(slots=True)
class _Entry:
    """A request that waits for its turn to be answered."""

    api_key: int
    fault: Fault | None
    answer: bytes = b""


class FaultyProxy:
    """Faults are for the n-th Produce request that passes, counted from 1."""

    def __init__(self) -> None:
        self.faults: dict[int, Fault] = {}
        self.trouble: Callable[[int], Fault | None] = no_trouble
        """What happens to a request of this API, whichever it is; REFUSE is for Produce only."""
        self.produces = 0
        """Produce requests seen, over all connections."""
        self.answers_wait_for = 0
        """Answers to Produce requests are held until so many requests were seen: that many are in flight at once."""
        self.target_port = 0
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._arrived = asyncio.Condition()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "FaultyProxy":
        self._thread.start()
        assert self._is_up.wait(START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join(START_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._main = self._loop.create_task(self._serve())
            self._loop.run_until_complete(asyncio.wait([self._main]))
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._pass, "localhost", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._is_up.set()
        try:
            await asyncio.Event().wait()
        finally:
            server.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            to_reader, to_writer = await asyncio.open_connection("localhost", self.target_port)
        except OSError:
            writer.transport.abort()
            return
        entries: asyncio.Queue[_Entry] = asyncio.Queue()
        ways = [
            asyncio.create_task(self._requests(reader, to_writer, entries)),
            asyncio.create_task(self._answers(to_reader, writer, entries)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for each in (writer, to_writer):
                each.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, entries: "asyncio.Queue[_Entry]"
    ) -> None:
        """From the client to the broker; ends when one of them hangs up, or is cut off."""
        while True:
            frame = await _read_frame(reader)
            entry = await self._look_at(frame)
            if entry.fault is Fault.LOSE_REQUEST:
                return
            if entry.fault is not Fault.REFUSE:
                writer.write(len(frame).to_bytes(4, "big") + frame)
            entries.put_nowait(entry)

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, entries: "asyncio.Queue[_Entry]"
    ) -> None:
        """From the broker to the client, in the order of the requests."""
        while True:
            entry = await entries.get()
            answer = entry.answer if entry.fault is Fault.REFUSE else await _read_frame(reader)
            if entry.api_key == ApiKey.PRODUCE:
                async with self._arrived:
                    await self._arrived.wait_for(lambda: self.produces >= self.answers_wait_for)
            if entry.fault is Fault.LOSE_ANSWER:
                return
            if entry.fault is Fault.HOLD_ANSWER:
                await asyncio.Event().wait()
            if entry.fault is Fault.GARBLE_ANSWER:
                answer = b"\xff" * len(answer)
            writer.write(len(answer).to_bytes(4, "big") + answer)

    async def _look_at(self, frame: bytes) -> _Entry:
        header = decode_request_header(frame)
        if header.api_key != ApiKey.PRODUCE:
            return _Entry(header.api_key, self.trouble(header.api_key))
        async with self._arrived:
            self.produces += 1
            fault = self.faults.get(self.produces) or self.trouble(header.api_key)
            self._arrived.notify_all()
        is_flexible = header.api_version >= PRODUCE_FLEXIBLE_SINCE
        position = skip_tags(frame, header.body) if is_flexible else header.body
        request, _ = decode_prefix(ProduceRequest, header.api_version, frame, position)
        has_tags = response_has_tags(ApiKey.PRODUCE, header.api_version)
        answer = encode_response_header(header.correlation_id, has_tags=has_tags)
        return _Entry(header.api_key, fault, answer + encode_bytes(refusal_of(request), header.api_version))


def refusal_of(request: ProduceRequest, code: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS) -> ProduceResponse:
    """The answer of a leader that cannot write any of it now."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def no_trouble(api_key: int) -> Fault | None:
    return None


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    return await reader.readexactly(size)
