"""Brokers that answer as a test tells them to, through the real codecs and in the versions they are given."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from levada.client.admin import Admin
from levada.client.admin.request_router import RequestRouter
from levada.client.admin.routing import Routing
from levada.client.cluster import Address, BrokerView, Cluster, ClusterView
from levada.client.errors import Disconnected, UnsupportedVersion
from levada.client.options import admin_options
from levada.protocol.api import ApiKey, response_class, stable_versions
from levada.protocol.codec import decode, encode_bytes
from levada.protocol.errors import CannotEncode
from levada.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from levada.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from levada.world.real import real_client_world

SILENCE = object()
"""The answer of a broker that never gives one."""

Answering = Callable[[Any, int], Any]
"""From the request and the broker's id to the response; an exception is raised to the caller."""


class ScriptedCluster(Cluster):
    """Brokers 1 to n, of which the first is the controller."""

    def __init__(self, brokers: int = 1, versions: Mapping[ApiKey, range] | None = None, **options: object) -> None:
        given: dict[str, object] = {"retry_backoff_ms": 1, "retry_backoff_max_ms": 5, **options}
        super().__init__(real_client_world(), admin_options("localhost:1", given), creates_topics=False)
        self.asked: list[tuple[int | None, Any]] = []
        self.versions_used: list[tuple[ApiKey, int]] = []
        self.refreshes = 0
        self._answers: dict[ApiKey, Answering] = {}
        self._versions = dict(versions or {})
        self._brokers = brokers

    def on(self, api: ApiKey, answering: Answering) -> None:
        self._answers[api] = answering

    def coordinates(self, coordinators: Mapping[str, int]) -> None:
        """Who coordinates which key."""

        def find(request: FindCoordinatorRequest, _: int) -> FindCoordinatorResponse:
            keys = request.coordinator_keys or [request.key]
            if not request.coordinator_keys:
                return FindCoordinatorResponse(node_id=coordinators[keys[0]], host="localhost", port=1)
            found = [
                Coordinator(key=key, node_id=coordinators[key], host="localhost", port=1, error_message=None)
                for key in keys
            ]
            return FindCoordinatorResponse(coordinators=found)

        self.on(ApiKey.FIND_COORDINATOR, find)

    def leads(self, leaders: Mapping[str, list[int]]) -> None:
        """The leader of each partition of each topic."""

        def describe(request: MetadataRequest, _: int) -> MetadataResponse:
            wanted = [topic.name for topic in request.topics or ()]
            return MetadataResponse(
                brokers=[
                    MetadataResponseBroker(node_id=number, host="localhost", port=number)
                    for number in range(1, self._brokers + 1)
                ],
                topics=[_topic(str(name), leaders.get(str(name))) for name in wanted],
            )

        self.on(ApiKey.METADATA, describe)

    def count(self, api: ApiKey) -> int:
        return Counter(request.api_key for _, request in self.asked)[api]

    async def call(self, node_id: int, request: Any, **bounds: Any) -> Any:
        if node_id not in self.view.brokers:
            raise Disconnected(f"broker {node_id} is not part of the cluster")
        return await self._answer(node_id, request, **bounds)

    async def call_any(self, request: Any, **bounds: Any) -> Any:
        return await self._answer(None, request, **bounds)

    async def refresh(self) -> None:
        self.refreshes += 1
        brokers = {
            number: BrokerView(number, Address("localhost", number), None) for number in range(1, self._brokers + 1)
        }
        self.view = ClusterView("cluster", 1, brokers)

    async def _answer(
        self, node_id: int | None, request: Any, *, at_least: int = 0, at_most: int | None = None, **_: Any
    ) -> Any:
        """What the wire would do to both messages is done to them."""
        api = ApiKey(request.api_key)
        ours = stable_versions(api)
        served = self._versions.get(api, ours)
        version = min(ours[-1], served.stop - 1, ours[-1] if at_most is None else at_most)
        if version < max(ours[0], served.start, at_least):
            raise UnsupportedVersion(f"{api.title} is not served so")
        try:
            received = decode(type(request), version, encode_bytes(request, version))
        except CannotEncode as error:
            raise UnsupportedVersion(str(error)) from error
        self.asked.append((node_id, received))
        self.versions_used.append((api, version))
        await asyncio.sleep(0)
        response = self._answers[api](received, node_id or 1)
        if response is SILENCE:
            await asyncio.sleep(3_600)
        return decode(response_class(api), version, encode_bytes(response, version))


def admin_of(cluster: ScriptedCluster) -> Admin:
    admin = Admin("localhost:1")
    admin._requests = RequestRouter(cluster)
    admin._routing = Routing(cluster)
    return admin


def _topic(name: str, leaders: list[int] | None) -> MetadataResponseTopic:
    if leaders is None:
        return MetadataResponseTopic(error_code=3, name=name, partitions=[])
    return MetadataResponseTopic(
        name=name,
        partitions=[
            MetadataResponsePartition(partition_index=index, leader_id=leader, replica_nodes=[1], isr_nodes=[1])
            for index, leader in enumerate(leaders)
        ],
    )
