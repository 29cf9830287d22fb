"""What a broker answers to bytes: every served API in every version, refusals, and garbage."""

import asyncio
import json
import random
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from levada.model.error_codes import ErrorCode
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.api import ApiKey
from levada.protocol.messages.api_versions import ApiVersionsRequest
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import build_batch
from levada.sim.requests.topics import records_of
from levada.world.real_net import RealNet
from tests.brokers import BrokerProcess

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "batches"
VALID_BATCH = build_batch([(1_700_000_000_000, b"k", b"v", ())])


def talk(broker: BrokerProcess, session: Callable[[Channel], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        channel = await Channel.connect(RealNet(), "localhost", broker.port)
        try:
            return await asyncio.wait_for(session(channel), 20)
        finally:
            channel.close()

    return asyncio.run(main())


def produce_request(
    topic: str, records: bytes | None, *, acks: int = -1, topic_id: bytes = bytes(16)
) -> ProduceRequest:
    data = PartitionProduceData(index=0, records=records)
    topic_data = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[topic_data])


def fetch_request(
    topic: str,
    offset: int,
    *,
    topic_id: bytes = bytes(16),
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
) -> FetchRequest:
    partition = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=current_leader_epoch
    )
    wanted = FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=[wanted])


async def topic_id_of(channel: Channel, name: str) -> bytes:
    response = await channel.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    topic_id: bytes = response.topics[0].topic_id
    assert topic_id != bytes(16)
    return topic_id


def test_every_version_of_produce_and_fetch_carries_records(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        topic_id = await topic_id_of(channel, "versions")
        offset = 0
        for version in range(3, 14):
            produced = await channel.call(produce_request("versions", VALID_BATCH, topic_id=topic_id), version)
            (partition,) = produced.responses[0].partition_responses
            assert (partition.error_code, partition.base_offset) == (0, offset), version
            offset += 1
        for version in range(4, 19):
            fetched = await channel.call(fetch_request("versions", 3, topic_id=topic_id), version)
            (read,) = fetched.responses[0].partitions
            assert (read.error_code, read.high_watermark) == (0, offset), version
            assert len(records_of(read)) == (offset - 3) * len(VALID_BATCH)

    talk(broker, session)


def test_every_version_of_list_offsets_metadata_and_create_topics_answers(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        for version in range(2, 8):
            topic = CreatableTopic(
                name=f"created-{version}", num_partitions=2, replication_factor=1, assignments=[], configs=[]
            )
            created = await channel.call(CreateTopicsRequest(topics=[topic]), version)
            assert created.topics[0].error_code == 0
        for version in range(14):
            described = await channel.call(MetadataRequest(topics=[MetadataRequestTopic(name="created-7")]), version)
            assert len(described.topics[0].partitions) == 2
            assert (described.brokers[0].host, described.brokers[0].port) == ("localhost", broker.port)
        for version in range(1, 12):
            partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
            request = ListOffsetsRequest(
                replica_id=-1, topics=[ListOffsetsTopic(name="created-7", partitions=[partition])]
            )
            listed = await channel.call(request, version)
            assert listed.topics[0].partitions[0].offset == 0

    talk(broker, session)


def test_metadata_finds_all_topics_and_topics_by_id(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        topic_id = await topic_id_of(channel, "by-id")
        for version, everything in ((0, []), (1, None), (12, None)):
            names = [topic.name for topic in (await channel.call(MetadataRequest(topics=everything), version)).topics]
            assert "by-id" in names
        nothing = await channel.call(MetadataRequest(topics=[]), 12)
        assert nothing.topics == []
        found = await channel.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]), 12)
        assert found.topics[0].name == "by-id"
        missing = await channel.call(MetadataRequest(topics=[MetadataRequestTopic(topic_id=b"x" * 16, name=None)]), 12)
        assert missing.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        unmade = MetadataRequest(topics=[MetadataRequestTopic(name="unmade")], allow_auto_topic_creation=False)
        assert (await channel.call(unmade, 12)).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        illegal = await channel.call(MetadataRequest(topics=[MetadataRequestTopic(name="no space")]), 12)
        assert illegal.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION

    talk(broker, session)


def corrupted(batch: bytes, at: int) -> bytes:
    damaged = bytearray(batch)
    damaged[at] ^= 0x40
    return bytes(damaged)


@pytest.mark.parametrize(
    ("records", "acks", "expected"),
    [
        (corrupted(VALID_BATCH, -1), -1, ErrorCode.CORRUPT_MESSAGE),
        (VALID_BATCH + VALID_BATCH, -1, ErrorCode.INVALID_RECORD),
        (VALID_BATCH[:-1], -1, ErrorCode.INVALID_RECORD),
        (b"", -1, ErrorCode.INVALID_RECORD),
        (None, -1, ErrorCode.INVALID_RECORD),
        (VALID_BATCH, 2, ErrorCode.INVALID_REQUIRED_ACKS),
        (VALID_BATCH, -2, ErrorCode.INVALID_REQUIRED_ACKS),
        (build_batch([(0, None, bytes(1_100_000), ())]), -1, ErrorCode.MESSAGE_TOO_LARGE),
    ],
    ids=["crc", "two batches", "cut off", "empty", "null", "acks 2", "acks -2", "too large"],
)
def test_bad_records_get_kafkas_error_code(
    broker: BrokerProcess, records: bytes | None, acks: int, expected: ErrorCode
) -> None:
    async def session(channel: Channel) -> Any:
        await topic_id_of(channel, "refusals")
        return await channel.call(produce_request("refusals", records, acks=acks), 9)

    response = talk(broker, session)
    code = response.responses[0].partition_responses[0].error_code
    # Apache calls a payload that is cut short corrupt or invalid, by where the cut is.
    assert code == expected or (records == VALID_BATCH[:-1] and code == ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize(
    "name", [one["name"] for one in json.loads((GOLDEN / "INDEX.json").read_text()) if "legacy" in one["name"]]
)
def test_old_message_formats_are_refused_as_apache_does(broker: BrokerProcess, name: str) -> None:
    async def session(channel: Channel) -> Any:
        await topic_id_of(channel, "refusals")
        return await channel.call(produce_request("refusals", (GOLDEN / f"{name}.bin").read_bytes()), 3)

    response = talk(broker, session)
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD


def test_unknown_topics_partitions_offsets_and_epochs_get_their_codes(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> list[int]:
        await topic_id_of(channel, "known")
        codes = []
        for request, version in (
            (fetch_request("unknown", 0), 12),
            (fetch_request("", 0, topic_id=b"x" * 16), 13),
            (fetch_request("known", 1), 12),
            (fetch_request("known", -1), 12),
            (fetch_request("known", 0, current_leader_epoch=5), 12),
        ):
            codes.append((await channel.call(request, version)).responses[0].partitions[0].error_code)
        return codes

    assert talk(broker, session) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
    ]


def test_produce_without_acks_is_silent_and_its_failure_closes_the_connection(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        topic_id = await topic_id_of(channel, "silent")
        channel.send_without_answer(produce_request("silent", VALID_BATCH, acks=0), 9)
        fetched = await channel.call(fetch_request("silent", 0, topic_id=topic_id), 13)
        assert len(records_of(fetched.responses[0].partitions[0])) == len(VALID_BATCH)
        channel.send_without_answer(produce_request("missing topic", VALID_BATCH, acks=0), 9)
        with pytest.raises(ChannelClosed):
            await channel.call(MetadataRequest(topics=[]), 9)

    talk(broker, session)


def test_a_fetch_waits_for_bytes_and_for_its_time(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        await topic_id_of(channel, "waiting")
        other = await Channel.connect(RealNet(), "localhost", broker.port)
        waiting = channel.send(fetch_request("waiting", 0, max_wait_ms=15_000, min_bytes=2 * len(VALID_BATCH)), 12)
        for _ in range(2):
            assert not waiting.done()
            await other.call(produce_request("waiting", VALID_BATCH), 9)
        fetched = await waiting
        assert len(records_of(fetched.responses[0].partitions[0])) == 2 * len(VALID_BATCH)
        other.close()
        empty = await channel.call(fetch_request("waiting", 2, max_wait_ms=50, min_bytes=1), 12)
        assert empty.responses[0].partitions[0].records == b""

    talk(broker, session)


def test_the_first_batch_comes_whole_however_small_the_limits(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> Any:
        await topic_id_of(channel, "limits")
        large = build_batch([(0, None, bytes(5_000), ())])
        for _ in range(2):
            await channel.call(produce_request("limits", large), 9)
        fetched = await channel.call(fetch_request("limits", 0, max_bytes=1), 12)
        return len(records_of(fetched.responses[0].partitions[0])) - len(large)

    assert talk(broker, session) == 0


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: BrokerProcess) -> None:
    with socket.create_connection(("localhost", broker.port), timeout=20) as client:
        body = (
            ApiKey.API_VERSIONS.to_bytes(2, "big") + (99).to_bytes(2, "big") + (7).to_bytes(4, "big") + b"\xff\xff\x00"
        )
        client.sendall(len(body).to_bytes(4, "big") + body)
        answer = client.recv(1_000)
    assert answer == bytes.fromhex("00000010 00000007 0023 00000001 0012 0000 0004")


def test_api_versions_names_what_is_served_and_checks_the_software_name(broker: BrokerProcess) -> None:
    async def session(channel: Channel) -> None:
        for version in range(5):
            named = ApiVersionsRequest(client_software_name="test", client_software_version="1.0")
            response = await channel.call(named, version)
            ranges = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
            assert ranges[ApiKey.PRODUCE] == (0, 13)
            assert ranges[ApiKey.INIT_PRODUCER_ID] == (0, 5)
            assert {8, 9, 10, 22} <= set(ranges), "librdkafka sends lz4 uncompressed without these"
        nameless = await channel.call(ApiVersionsRequest(client_software_name="-bad-", client_software_version="1"), 3)
        assert nameless.error_code == ErrorCode.INVALID_REQUEST

    talk(broker, session)


def hostile_streams() -> Iterator[bytes]:
    chance = random.Random(3)
    header = bytes.fromhex("00000001 ffff")
    yield b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    yield bytes.fromhex("16030100c8010000c40303") + chance.randbytes(200)
    for size in (-1, -(2**31), 2**31 - 1, 104_857_601):
        yield size.to_bytes(4, "big", signed=True) + bytes(100)
    for api_key in (*range(-2, 100), 32_000):
        for version in (0, 3, 12, 99):
            body = api_key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big") + header + chance.randbytes(40)
            yield len(body).to_bytes(4, "big") + body
    for _ in range(100):
        yield chance.randbytes(chance.randrange(1, 300))


def test_garbage_is_answered_or_the_connection_closed_and_others_notice_nothing(broker: BrokerProcess) -> None:
    bystander = socket.create_connection(("localhost", broker.port), timeout=20)
    question = bytes.fromhex("0000000a 0012 0000 00000005 ffff")
    for number, stream in enumerate(hostile_streams()):
        with socket.create_connection(("localhost", broker.port), timeout=20) as client:
            client.sendall(stream)
            client.shutdown(socket.SHUT_WR)
            try:
                while client.recv(65_536):
                    pass
            except ConnectionResetError:
                pass
        if number % 50 == 0:
            bystander.sendall(question)
            assert bystander.recv(65_536)[4:8] == bytes.fromhex("00000005")
    bystander.close()
    assert "Traceback" not in broker.log
