"""A broker under comparison: its connection, and what the answers so far have taught about it."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.describe_transactions import DescribeTransactionsRequest
from levada.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from levada.protocol.messages.fetch import FetchResponse
from levada.protocol.messages.find_coordinator import FindCoordinatorRequest
from levada.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from levada.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest
from levada.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from levada.world.real_net import RealNet
from tests.interop.differential.answers import (
    ALIVE,
    CLOSED,
    PARKED,
    SILENT,
    flatten,
    name_members,
    random_part,
)
from tests.interop.differential.cases import PARTITIONS, AnswerOf, Case, Table, Volley

TRANSACTION = 1
SAFE_DOWNGRADE = 2
DELETE = 1
BROKER = 4

CALL_SECONDS = 10
SETTLE_SECONDS = 30


class VolleyChannel(Channel):
    """Requests that are sent at once come in one piece, so that ours begins with all of them before it goes on."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._socket = transport.get_extra_info("socket")

    def send_at_once(self, requests: Sequence[Any], version: int) -> list[asyncio.Future[Any]]:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, True)
        answers = [self.send(request, version) for request in requests]
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, False)
        return answers


class LiveSide:
    """A broker at a port of this machine."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.version = 0
        self.session_id = 0
        self.producer_id = -1
        self._port = port
        self._topic_ids: dict[str, bytes] = {}
        self._topic_names: dict[bytes, str] = {}
        self._leader_epochs: dict[str, int] = {}
        self._channel: Channel | None = None
        self._members: dict[tuple[str, str], str] = {}
        self._member_names: dict[str, str] = {}
        self._identities: dict[str, tuple[int, int]] = {}
        self._parked: dict[str, tuple[Any, asyncio.Future[Any], Channel]] = {}

    def topic_id(self, name: str) -> bytes:
        return self._topic_ids[name]

    def leader_epoch(self, topic: str) -> int:
        return self._leader_epochs[topic]

    def identity(self, transactional_id: str) -> tuple[int, int]:
        return self._identities[transactional_id]

    def member(self, group: str, case: str) -> str:
        return self._members[group, case]

    async def prepare(self, table: Table) -> None:
        """Create the table's topics, and wait until they are led."""
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=PARTITIONS,
                replication_factor=1,
                assignments=[],
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
            )
            for name, configs in table.topics.items()
        ]
        created = await self._call(CreateTopicsRequest(topics=topics), 7)
        assert all(one.error_code == 0 for one in created.topics), (self.name, created)
        await self._until(lambda: self._leads(table.topics), "does not lead its topics")
        if table.is_about_transactions:
            await self._until(self._coordinates_transactions, "coordinates no transactions")
        if table.is_about_groups or table.is_about_transactions:
            await self._until(self._coordinates, "coordinates no groups")
        await self.learn_topics()

    async def warm_up(self) -> None:
        """Wait for the first producer ids, for which Apache asks its controller."""
        await self._until(self._gives_producer_ids, "gives no producer ids")

    async def turn_off_eligible_leaders(self) -> None:
        """As ours has it; otherwise Apache pins min.insync.replicas as a configuration of all brokers (KIP-966)."""
        off = FeatureUpdateKey(
            feature="eligible.leader.replicas.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE
        )
        updated = await self._call(UpdateFeaturesRequest(feature_updates=[off]), 1)
        assert updated.error_code == 0, updated
        pinned = AlterableConfig(name="min.insync.replicas", config_operation=DELETE, value=None)
        all_brokers = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[pinned])
        altered = await self._call(IncrementalAlterConfigsRequest(resources=[all_brokers], validate_only=False), 1)
        assert altered.responses[0].error_code == 0, altered

    async def answer(self, case: Case, version: int) -> dict[str, str]:
        """Send a case's request; what came back, field by field."""
        self.version = version
        request = case.request(self)
        try:
            if case.is_parked:
                await self._park(case.name, request, version)
                return PARKED
            if isinstance(request, AnswerOf):
                return await self._parked_answer(request.case)
            if isinstance(request, Volley):
                return await self._volley(request, version)
            if not case.is_answered:
                channel = await self._connected()
                channel.send_without_answer(request, version)
                await self._call(ApiVersionsRequest(), 0)
                return ALIVE
            response = await self._call(request, version)
        except (ChannelClosed, TimeoutError) as error:
            self.close()
            return CLOSED if isinstance(error, ChannelClosed) else SILENT
        self._learn(response)
        self._learn_member(case.name, request, response)
        if isinstance(request, InitProducerIdRequest | EndTxnRequest) and request.transactional_id:
            await self._follow_transaction(request.transactional_id, response)
        if isinstance(request, CreateTopicsRequest | MetadataRequest):
            await self.learn_topics()
        return self._shown(response)

    async def learn_topics(self) -> None:
        """Ask for the ids of all topics; those of deleted ones are remembered."""
        metadata = await self._call(MetadataRequest(topics=None), 12)
        for topic in metadata.topics:
            assert topic.name is not None
            self._topic_ids[topic.name] = topic.topic_id
            self._topic_names[topic.topic_id] = topic.name
            self._leader_epochs[topic.name] = topic.partitions[0].leader_epoch

    def close(self) -> None:
        for _, answer, channel in self._parked.values():
            answer.cancel()
            channel.close()
        self._parked.clear()
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _shown(self, response: Any) -> dict[str, str]:
        return name_members(flatten(response, self._topic_names), self._member_names)

    async def _park(self, name: str, request: Any, version: int) -> None:
        """Send it on a connection of its own: a broker answers one after the other."""
        channel = await Channel.connect(RealNet(), "localhost", self._port)
        self._parked[name] = request, channel.send(request, version), channel
        if isinstance(request, JoinGroupRequest):
            await self._until(lambda: self._rebalances(request.group_id), f"does not rebalance {request.group_id}")

    async def _parked_answer(self, name: str) -> dict[str, str]:
        request, answer, channel = self._parked.pop(name)
        try:
            response = await asyncio.wait_for(answer, CALL_SECONDS)
        finally:
            channel.close()
        self._learn_member(name, request, response)
        return self._shown(response)

    async def _volley(self, volley: Volley, version: int) -> dict[str, str]:
        channel = VolleyChannel("levada")
        await RealNet().connect("localhost", self._port, lambda: channel)
        try:
            answers = channel.send_at_once(volley.requests, version)
            responses = await asyncio.wait_for(asyncio.gather(*answers), CALL_SECONDS)
        finally:
            channel.close()
        shown = [self._shown(response) for response in responses]
        return {f"[{number}].{path}": value for number, one in enumerate(shown) for path, value in one.items()}

    async def _rebalances(self, group: str) -> bool:
        answer = await self._call(DescribeGroupsRequest(groups=[group]), 5)
        return bool(answer.groups[0].group_state == "PreparingRebalance")

    def _learn_member(self, case: str, request: Any, response: Any) -> None:
        """A case is given at most one id; that of an earlier case that says its id is known already."""
        if isinstance(response, JoinGroupResponse) and response.member_id and not request.member_id:
            self._members[request.group_id, case] = response.member_id
            self._member_names[random_part(response.member_id)] = case

    def _learn(self, response: Any) -> None:
        if isinstance(response, FetchResponse) and response.session_id:
            self.session_id = response.session_id
        if isinstance(response, InitProducerIdResponse) and response.producer_id >= 0:
            self.producer_id = response.producer_id
        if isinstance(response, CreateTopicsResponse):
            self._topic_names.update({one.topic_id: one.name for one in response.topics if any(one.topic_id)})
            self._topic_ids.update({one.name: one.topic_id for one in response.topics if any(one.topic_id)})

    async def _follow_transaction(self, transactional_id: str, response: Any) -> None:
        """Learn what the producer goes on with, and wait for the markers, which Apache writes in the background."""
        if isinstance(response, InitProducerIdResponse | EndTxnResponse) and response.producer_id >= 0:
            self._identities[transactional_id] = response.producer_id, response.producer_epoch

        async def is_settled() -> bool:
            described = await self._call(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
            return not described.transaction_states[0].transaction_state.startswith("Prepare")

        await self._until(is_settled, f"does not finish the transaction of {transactional_id}")

    async def _until(self, condition: Callable[[], Awaitable[bool]], complaint: str) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        while not await condition():
            assert time.monotonic() < deadline, f"{self.name} {complaint}"
            await asyncio.sleep(0.05)

    async def _leads(self, names: Iterable[str]) -> bool:
        """Asked for offsets, because metadata names a leader before it knows of it."""
        partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
        topics = [ListOffsetsTopic(name=name, partitions=partitions) for name in names]
        answer = await self._call(ListOffsetsRequest(replica_id=-1, topics=topics), 7)
        return not any(partition.error_code for topic in answer.topics for partition in topic.partitions)

    async def _coordinates(self) -> bool:
        """Apache makes the topic of offsets in the background when a client asks, and then reads it."""
        found = await self._call(FindCoordinatorRequest(key_type=0, coordinator_keys=["any"]), 6)
        listed = await self._call(ListGroupsRequest(), 5)
        described = await self._call(DescribeGroupsRequest(groups=["any"]), 5)
        return not (found.coordinators[0].error_code or listed.error_code or described.groups[0].error_code)

    async def _coordinates_transactions(self) -> bool:
        found = await self._call(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=["any"]), 6)
        described = await self._call(DescribeTransactionsRequest(transactional_ids=["any"]), 0)
        is_there = described.transaction_states[0].error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        return is_there and not found.coordinators[0].error_code

    async def _gives_producer_ids(self) -> bool:
        answer = await self._call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)
        return bool(answer.error_code == 0)

    async def _call(self, request: Any, version: int) -> Any:
        channel = await self._connected()
        return await asyncio.wait_for(channel.call(request, version), CALL_SECONDS)

    async def _connected(self) -> Channel:
        if self._channel is None:
            self._channel = await Channel.connect(RealNet(), "localhost", self._port)
        return self._channel
