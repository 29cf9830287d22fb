"""Which broker to ask: any, the controller, a partition's leader, a group's coordinator, or one by its id."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from levada.client.admin.request_router import BrokerRoutes, Route, verdict
from levada.client.cluster import NO_NODE, Cluster, CoordinatorKind
from levada.client.errors import KafkaError, UnsupportedVersion, error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.find_coordinator import (
    MANY_KEYS_SINCE,
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

K = TypeVar("K")


class Routing:
    """Looks brokers up anew for each attempt: an admin client calls seldom, and what it remembered would be old."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def any(self, items: Sequence[K]) -> BrokerRoutes[K]:
        """Brokers that answer from what all know, or that pass it on."""
        return BrokerRoutes(to={None: list(items)})

    async def controller(self, items: Sequence[K]) -> BrokerRoutes[K]:
        """The controller as brokers name it: with KRaft one of them, which passes the request on."""
        if self._cluster.view.controller_id not in self._cluster.view.brokers:
            await self._cluster.refresh()
        controller_id = self._cluster.view.controller_id
        if controller_id not in self._cluster.view.brokers:
            return await self.any(items)
        return BrokerRoutes(to={controller_id: list(items)})

    def brokers(self, broker_of: Callable[[K], int | None]) -> Route[K]:
        """The broker that each item names, if it names one."""

        async def route(items: Sequence[K]) -> BrokerRoutes[K]:
            wanted = {item: broker_of(item) for item in items}
            return await self._to(wanted, ErrorCode.BROKER_NOT_AVAILABLE)

        return route

    def leaders(self, partition_of: Callable[[K], TopicPartition]) -> Route[K]:
        """The leader of each item's partition."""

        async def route(items: Sequence[K]) -> BrokerRoutes[K]:
            partitions = {item: partition_of(item) for item in items}
            topics = dict.fromkeys(partition.topic for partition in partitions.values())
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=topic) for topic in topics], allow_auto_topic_creation=False
            )
            leaders = _leaders(await self._cluster.call_any(request), topics)
            return await self._to(
                {item: _leader(leaders[partition.topic], partition) for item, partition in partitions.items()},
                ErrorCode.LEADER_NOT_AVAILABLE,
            )

        return route

    def coordinators(self, kind: CoordinatorKind) -> Route[str]:
        """The coordinator of each group or transactional id."""

        async def route(items: Sequence[str]) -> BrokerRoutes[str]:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=list(items))
            try:
                response: FindCoordinatorResponse = await self._cluster.call_any(request, at_least=MANY_KEYS_SINCE)
            except UnsupportedVersion:
                found = dict(zip(items, await self._one_by_one(kind, items)))
            else:
                found = {one.key: _coordinator(one, one.key) for one in response.coordinators}
            absent = error_for(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the broker names none")
            coordinators = {item: found.get(item, absent) for item in items}
            return await self._to(coordinators, ErrorCode.COORDINATOR_NOT_AVAILABLE)

        return route

    def coordinator(self, kind: CoordinatorKind, key: str) -> Route[K]:
        """The coordinator of one group or transactional id, which all items belong to."""
        many = self.coordinators(kind)

        async def route(items: Sequence[K]) -> BrokerRoutes[K]:
            found = await many([key])
            if found.errors:
                return BrokerRoutes(errors=dict.fromkeys(items, found.errors[key]))
            (broker,) = found.to
            return BrokerRoutes(to={broker: list(items)})

        return route

    async def _one_by_one(self, kind: CoordinatorKind, keys: Sequence[str]) -> list[int | KafkaError]:
        async def find(key: str) -> int | KafkaError:
            request = FindCoordinatorRequest(key=key, key_type=kind)
            found: FindCoordinatorResponse = await self._cluster.call_any(request, at_most=MANY_KEYS_SINCE - 1)
            return _coordinator(found, key)

        return await asyncio.gather(*(find(key) for key in keys))

    async def _to(self, wanted: Mapping[K, int | KafkaError | None], fault: ErrorCode) -> BrokerRoutes[K]:
        """Routes to brokers by their ids, which the view must know before they can be asked."""
        ids = [broker for broker in wanted.values() if isinstance(broker, int)]
        if any(broker not in self._cluster.view.brokers for broker in ids):
            await self._cluster.refresh()
        routes: BrokerRoutes[K] = BrokerRoutes()
        for item, broker in wanted.items():
            if isinstance(broker, KafkaError):
                routes.errors[item] = broker
            elif broker is None or broker in self._cluster.view.brokers:
                routes.add(broker, item)
            else:
                routes.errors[item] = error_for(fault, "no such broker is up", context=f"broker {broker}")
        return routes


def _coordinator(found: Coordinator | FindCoordinatorResponse, key: str) -> int | KafkaError:
    return verdict(found.error_code, found.error_message, f"coordinator of {key!r}", found.node_id)


def _leaders(response: MetadataResponse, topics: Mapping[str, None]) -> dict[str, dict[int, int] | KafkaError]:
    """Leaders by partition, or what is wrong with the topic."""
    leaders: dict[str, dict[int, int] | KafkaError] = {
        topic: error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, context=topic) for topic in topics
    }
    for topic in response.topics:
        if topic.name is not None:
            leaders[topic.name] = (
                {partition.partition_index: partition.leader_id for partition in topic.partitions}
                if topic.error_code == ErrorCode.NONE
                else error_for(topic.error_code, context=topic.name)
            )
    return leaders


def _leader(leaders: Mapping[int, int] | KafkaError, partition: TopicPartition) -> int | KafkaError:
    if isinstance(leaders, KafkaError):
        return leaders
    leader = leaders.get(partition.partition)
    if leader is None:
        return error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, context=str(partition))
    if leader == NO_NODE:
        return error_for(ErrorCode.LEADER_NOT_AVAILABLE, context=str(partition))
    return leader
