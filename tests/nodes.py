"""A whole node in the process of a test, on a real disk and a free port."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levada.broker.broker import Broker
from levada.net.channel import Channel
from levada.node.node import Node
from levada.node.settings import node_settings
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.world.real import real_world
from levada.world.world import World


@dataclass(slots=True)
class RunningNode:
    world: World
    node: Node
    channel: Channel

    @property
    def broker(self) -> Broker:
        return self.node.parts.broker

    async def call(self, request: Any, version: int | None = None) -> Any:
        """Send a request over the wire, in its newest version unless another is named."""
        return await self.channel.call(request, request.versions[-1] if version is None else version)

    async def create(self, name: str, partitions: int = 1) -> bytes:
        """Create a topic; returns its id."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
        response = await self.call(CreateTopicsRequest(topics=[topic]))
        assert response.topics[0].error_code == 0, response.topics[0]
        topic_id: bytes = response.topics[0].topic_id
        return topic_id


@asynccontextmanager
async def running_node(directory: Path, settings: dict[str, str] | None = None) -> AsyncIterator[RunningNode]:
    world = real_world()
    given = {"log.dirs": str(directory), "listeners": "PLAINTEXT://localhost:0", "node.id": "1", **(settings or {})}
    node = Node(world, node_settings(given))
    try:
        await node.start()
        channel = await Channel.connect(world.net, "localhost", node.port)
        try:
            yield RunningNode(world, node, channel)
        finally:
            channel.close()
    finally:
        await node.stop()
