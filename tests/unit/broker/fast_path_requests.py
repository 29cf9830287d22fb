"""Two brokers that live through the same: one knows requests by their bytes, the other decodes each of them."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from levada.broker.broker import Broker
from levada.broker.dispatch import Dispatcher
from levada.broker.handlers import HANDLERS
from levada.broker.metrics import BrokerMetrics
from levada.broker.route import routes_of
from levada.model.metrics import Registry
from levada.net.connection import ServerConnection
from levada.net.reply import CloseConnection, Reply
from levada.node.node import Node
from levada.node.settings import node_settings
from levada.protocol.codec import encode_bytes
from levada.protocol.errors import CodecError
from levada.protocol.headers import encode_request_header
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from levada.world.disk import FileRange
from levada.world.real import RealClock, real_world
from tests.logs import T0

TOPICS: dict[str, dict[str, str]] = {
    "plain": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "compacted": {"cleanup.policy": "compact"},
    "gzipped": {"compression.type": "gzip"},
    "small": {"max.message.bytes": "200", "index.interval.bytes": "100"},
    "flushed": {"flush.messages": "1"},
    "strict": {"min.insync.replicas": "2"},
}
PARTITIONS = 2


class SteadyClock(RealClock):
    def now_ms(self) -> int:
        return T0


class SeededEntropy:
    def __init__(self) -> None:
        self._random = random.Random(1)

    def random_bytes(self, size: int) -> bytes:
        return self._random.randbytes(size)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def a_connection() -> ServerConnection:
    """What a dispatcher needs of one."""
    return cast(
        ServerConnection,
        SimpleNamespace(
            peer="peer",
            listener="PLAINTEXT",
            serves_brokers=True,
            keep=lambda frame: memoryview(bytes(frame)),
            hold_for=lambda reply: reply,
        ),
    )


class Undiscerning(Dispatcher):
    """Decodes every request."""

    def _open_fast_path(self, api_key: int, version: int) -> None:
        return None


class Side:
    """One broker with its own way to deal with requests."""

    def __init__(self, broker: Broker, kind: type[Dispatcher]) -> None:
        self.broker = broker
        self.metrics = BrokerMetrics(Registry(), 0)
        self.dispatch = kind(routes_of(HANDLERS), broker, self.metrics)

    async def ask(self, frame: bytes) -> bytes | str | None:
        """The reply as one piece, or why the connection was closed; the frame is overwritten as soon as it may be."""
        buffer = memoryview(bytearray(frame))
        connection = a_connection()
        try:
            reply = self.dispatch(buffer, connection)
            buffer[:] = b"\xdd" * len(buffer)
            return joined(await reply if isinstance(reply, asyncio.Future) else reply)
        except CloseConnection as error:
            return str(error)

    def stop_decoding(self) -> None:
        """From now on only requests that need no decoder are answered."""

        def refuse(*_: object) -> tuple[Any, int]:
            raise CodecError("decoded")

        for codec in self.dispatch._codecs.values():
            codec.decode = refuse

    def counted(self, api_key: int) -> tuple[Any, ...]:
        """What the metrics say of an API, but for times."""
        api = self.metrics.apis[api_key]
        return list(api._requests), dict(api._errors), api._failed, api._sizes.recent

    def counted_of_topic(self, topic: str) -> dict[str, int]:
        counters = self.broker.metrics.topic(topic)
        return {
            name: getattr(counters, name) for name in counters.__slots__ if isinstance(getattr(counters, name), int)
        }


def joined(reply: Reply) -> bytes | None:
    """All of a reply but its size."""
    if reply is None:
        return None
    if isinstance(reply, bytes):
        assert int.from_bytes(reply[:4], "big") == len(reply) - 4
        return reply[4:]
    return b"".join(
        piece.file.read(piece.position, piece.size) if isinstance(piece, FileRange) else piece for piece in reply
    )


def frame_of(message: Any, version: int, client_id: str | None = "client", correlation_id: int = 7) -> bytes:
    return encode_request_header(message.api_key, version, correlation_id, client_id) + encode_bytes(message, version)


@asynccontextmanager
async def started(directory: Path) -> AsyncIterator[Node]:
    world = replace(real_world(), clock=SteadyClock(), entropy=SeededEntropy())
    given = {"log.dirs": str(directory), "listeners": "PLAINTEXT://localhost:0", "node.id": "1"}
    node = Node(world, node_settings(given))
    await node.start()
    try:
        yield node
    finally:
        await node.stop()


async def create_topics(side: Side) -> None:
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=PARTITIONS,
            replication_factor=1,
            assignments=[],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in TOPICS.items()
    ]
    assert await side.ask(frame_of(CreateTopicsRequest(topics=topics), 7))
    assert set(side.broker.image.topics) == set(TOPICS)


@asynccontextmanager
async def two_sides(directory: Path) -> AsyncIterator[tuple[Side, Side]]:
    """One with the fast path, and one that does not, with the same topics under the same ids."""
    async with started(directory / "fast") as one, started(directory / "decoded") as other:
        sides = Side(one.parts.broker, Dispatcher), Side(other.parts.broker, Undiscerning)
        for side in sides:
            await create_topics(side)
        assert sides[0].broker.image.topic_names == sides[1].broker.image.topic_names
        yield sides
