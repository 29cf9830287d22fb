"""A request that is known by its bytes is answered exactly as one that is decoded."""

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from levada.broker import fast_path
from levada.broker.fetch_fast_path import FetchFastPath
from levada.broker.handlers import fetch as fetch_handler
from levada.broker.handlers import produce as produce_handler
from levada.broker.produce_fast_path import ProduceFastPath
from levada.protocol.api import ApiKey
from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from levada.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from levada.records import Codec, build_batch
from tests.logs import T0
from tests.unit.broker.fast_path_requests import TOPICS, Side, a_connection, frame_of, joined, two_sides

NO_ID = bytes(16)
BY_ID = {ApiKey.PRODUCE: 13, ApiKey.FETCH: 13}


def batch(chance: random.Random) -> bytes | None:
    """What a producer may send, and what it should not."""
    key = chance.choice([None, b"key"])
    records = [(T0 + chance.randrange(3), key, bytes(chance.randrange(40)), ()) for _ in range(chance.randint(1, 3))]
    good = build_batch(records)
    makers: list[Callable[[], bytes | None]] = [
        lambda: good,
        lambda: build_batch(records, codec=Codec.GZIP),
        lambda: build_batch(records, codec=Codec.ZSTD),
        lambda: build_batch(records, producer_id=5, producer_epoch=0, base_sequence=chance.randrange(4)),
        lambda: build_batch(records, producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True),
        lambda: build_batch(records, max_timestamp=T0 + 9_999),
        lambda: build_batch([(-1, key, b"no time", ())]),
        lambda: build_batch([(T0 + 10**9, key, b"from the future", ())]),
        lambda: build_batch(records, log_append_time_ms=T0),
        lambda: build_batch(records, base_offset=3),
        lambda: build_batch([(T0, key, bytes(300), ())]),
        lambda: good[:-1] + bytes([good[-1] ^ 1]),
        lambda: good[: chance.randrange(len(good))],
        lambda: good + good,
        lambda: b"",
        lambda: None,
    ]
    return chance.choice([*makers[:1] * len(makers), *makers])()


def produce(side: Side, version: int, chance: random.Random) -> ProduceRequest:
    data = [
        PartitionProduceData(index=chance.choice([0, 0, 0, 1, 9]), records=batch(chance))
        for _ in range(chance.choice([1] * 12 + [0, 2]))
    ]
    name, topic_id = topic(side, ApiKey.PRODUCE, version, chance)
    one = TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
    return ProduceRequest(
        transactional_id=chance.choice([None] * 9 + ["t"]),
        acks=chance.choice([1, 1, 1, -1, -1, 0, 2]),
        timeout_ms=chance.choice([1_000, 30_000]),
        topic_data=[one] * chance.choice([1] * 12 + [0, 2]),
    )


def fetch(side: Side, version: int, chance: random.Random) -> FetchRequest:
    name, topic_id = topic(side, ApiKey.FETCH, version, chance)
    asks = [
        FetchPartition(
            partition=chance.choice([0, 0, 0, 1, 9]),
            fetch_offset=chance.choice([*range(40), 10**6, -1]),
            partition_max_bytes=chance.choice([0, 50, 100, 150, 500, 1 << 20, -1]),
            current_leader_epoch=chance.choice([-1] * 5 + [0, 0, 5]),
            last_fetched_epoch=chance.choice([-1] * 12 + [0]) if version >= 12 else -1,
        )
        for _ in range(chance.choice([1] * 12 + [0, 2]))
    ]
    return FetchRequest(
        max_wait_ms=chance.choice([0] * 20 + [1]),
        min_bytes=chance.choice([0, 1, 1, 1, 400]),
        max_bytes=chance.choice([1 << 20, 1 << 20, 300, 0]),
        isolation_level=chance.choice([0] * 6 + [1]),
        session_id=chance.choice([0] * 12 + [5]),
        session_epoch=chance.choice([-1] * 12 + [3]),
        topics=[FetchTopic(topic=name, topic_id=topic_id, partitions=asks)] * chance.choice([1] * 12 + [0, 2]),
        forgotten_topics_data=[ForgottenTopic(topic=name, topic_id=topic_id, partitions=[0])]
        * (version >= 7 and chance.random() < 0.05),
        rack_id=chance.choice(["", "", "rack"]) if version >= 11 else "",
    )


def topic(side: Side, api_key: ApiKey, version: int, chance: random.Random) -> tuple[str, bytes]:
    name = chance.choice(["plain"] * 6 + [*TOPICS, "missing", "x" * 200])
    if version < BY_ID[api_key]:
        return name, NO_ID
    known = side.broker.image.topics.get(name)
    return "", b"\x01" * 16 if known is None else known.topic_id


def frames(side: Side, chance: random.Random) -> list[bytes]:
    """A request and what a client may send after it: the same, with another offset, with a byte more or less."""
    make: Any = chance.choice([produce, fetch])
    versions = (produce_handler if make is produce else fetch_handler).VERSIONS
    version = chance.choice(versions)
    client_id = chance.choice(["client", "client", "another", "", None, "c" * 255, "c" * 300])
    message = make(side, version, chance)
    sent = [frame_of(message, version, client_id, number) for number in range(3)]
    if make is fetch and message.topics and message.topics[0].partitions:
        for offset in (0, 3, 7):
            message.topics[0].partitions[0].fetch_offset = offset
            sent.append(frame_of(message, version, client_id, offset))
    odd = bytearray(chance.choice(sent))
    change = chance.randrange(6)
    if change == 0:
        odd += b"\0"
    elif change == 1:
        del odd[chance.randrange(len(odd)) :]
    elif change == 2:
        odd[chance.randrange(len(odd))] ^= 1 << chance.randrange(8)
    return [*sent, bytes(odd)]


@pytest.mark.parametrize("seed", range(3))
def test_both_ways_lead_to_the_same_bytes_and_counts(seed: int, tmp_path: Path) -> None:
    async def main() -> None:
        chance = random.Random(seed)
        async with two_sides(tmp_path) as (known, decoded):
            for _ in range(600):
                for frame in frames(known, chance):
                    assert await known.ask(frame) == await decoded.ask(frame), frame
            for api_key in BY_ID:
                assert known.counted(api_key) == decoded.counted(api_key)
            for name in TOPICS:
                assert known.counted_of_topic(name) == decoded.counted_of_topic(name)
                for index in range(2):
                    one, other = (side.broker.partition(name, NO_ID, index).log for side in (known, decoded))
                    assert one.end_offset == other.end_offset
                    assert one.active.file.read(0, one.active.size) == other.active.file.read(0, other.active.size)

    asyncio.run(main())


def simple_produce(side: Side, version: int) -> bytes:
    name, topic_id = ("plain", NO_ID) if version < 13 else ("", side.broker.image.topics["plain"].topic_id)
    data = PartitionProduceData(index=0, records=build_batch([(T0, None, b"value", ())]))
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])
    return frame_of(ProduceRequest(acks=1, timeout_ms=1_000, topic_data=[topic]), version)


def simple_fetch(side: Side, version: int, offset: int = 0, max_wait_ms: int = 0) -> bytes:
    name, topic_id = ("plain", NO_ID) if version < 13 else ("", side.broker.image.topics["plain"].topic_id)
    ask = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=name, topic_id=topic_id, partitions=[ask])
    return frame_of(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic]), version)


def a_topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=2, replication_factor=1, assignments=[], configs=[])


def test_what_was_seen_before_is_not_decoded_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with two_sides(tmp_path) as (known, _):
            for version in ProduceFastPath.versions:
                assert await known.ask(simple_produce(known, version))
            for version in FetchFastPath.versions:
                assert await known.ask(simple_fetch(known, version))
            known.stop_decoding()
            for version in ProduceFastPath.versions:
                assert isinstance(await known.ask(simple_produce(known, version)), bytes)
            for version in FetchFastPath.versions:
                assert isinstance(await known.ask(simple_fetch(known, version, offset=3)), bytes)
            assert await known.ask(simple_fetch(known, 12, max_wait_ms=1)) == "decoded"

    asyncio.run(main())


def test_no_request_is_known_after_the_metadata_has_changed(tmp_path: Path) -> None:
    async def main() -> None:
        async with two_sides(tmp_path) as (known, _):
            frame = simple_produce(known, 12)
            assert await known.ask(frame)
            assert await known.ask(frame_of(CreateTopicsRequest(topics=[a_topic("another")]), 7))
            known.stop_decoding()
            assert await known.ask(frame) == "decoded"

    asyncio.run(main())


def test_a_topic_that_is_deleted_and_created_again_is_another(tmp_path: Path) -> None:
    async def main() -> None:
        async with two_sides(tmp_path) as sides:
            by_name, by_id = simple_produce(sides[0], 12), simple_produce(sides[0], 13)
            replies = []
            for side in sides:
                answers = [await side.ask(frame) for frame in (by_name, by_id) * 2]
                deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="plain", topic_id=NO_ID)], timeout_ms=1_000)
                answers += [await side.ask(frame_of(deleted, 6)), *[await side.ask(one) for one in (by_name, by_id)]]
                answers.append(await side.ask(frame_of(CreateTopicsRequest(topics=[a_topic("plain")]), 7)))
                answers += [await side.ask(frame) for frame in (by_name, by_id) * 2]
                assert side.broker.partition("plain", NO_ID, 0).log.end_offset == 2
                replies.append(answers)
            assert replies[0] == replies[1]

    asyncio.run(main())


def test_a_parked_fetch_sees_what_the_fast_path_appends_in_the_same_turn(tmp_path: Path) -> None:
    async def main() -> None:
        async with two_sides(tmp_path) as (known, _):
            produced = simple_produce(known, 12)
            assert await known.ask(produced)
            connection = a_connection()
            waiting = known.dispatch(memoryview(simple_fetch(known, 12, offset=1, max_wait_ms=60_000)), connection)
            assert isinstance(waiting, asyncio.Future)
            known.stop_decoding()
            # Nothing is awaited in between: it is the same turn of the loop.
            assert known.dispatch(memoryview(produced), connection)
            assert b"value" in (joined(await asyncio.wait_for(waiting, 5)) or b"")

    asyncio.run(main())


def test_of_too_many_kinds_the_oldest_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "MAX_KNOWN", 2)

    async def main() -> None:
        async with two_sides(tmp_path) as (known, _):
            sent = [simple_produce(known, 12).replace(b"client", name) for name in (b"first!", b"second", b"third!")]
            for frame in sent:
                assert isinstance(await known.ask(frame), bytes)
            known.stop_decoding()
            assert await known.ask(sent[0]) == "decoded"
            assert isinstance(await known.ask(sent[1]), bytes)
            assert isinstance(await known.ask(sent[2]), bytes)

    asyncio.run(main())


def test_a_request_of_more_than_a_kilobyte_beside_its_records_is_not_learned(tmp_path: Path) -> None:
    async def main() -> None:
        async with two_sides(tmp_path) as (known, _):
            long_names = simple_produce(known, 12).replace(b"\0\6client", (2_000).to_bytes(2, "big") + b"c" * 2_000)
            ask = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
            topic = FetchTopic(topic="plain", topic_id=NO_ID, partitions=[ask])
            tagged = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])
            tagged.unknown_tags = {9_999: bytes(2_000)}
            requests = [long_names, frame_of(tagged, 12)]
            for frame in requests:
                assert isinstance(await known.ask(frame), bytes)
            known.stop_decoding()
            assert [await known.ask(frame) for frame in requests] == ["decoded", "decoded"]

    asyncio.run(main())


def test_what_is_known_is_bounded_in_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_path, "MAX_KNOWN_BYTES", 3 * fast_path.ENTRY_BYTES)

    async def main() -> None:
        async with two_sides(tmp_path) as (known, _):
            sent = [simple_produce(known, 12).replace(b"client", name) for name in (b"first!", b"second", b"third!")]
            for frame in sent:
                assert isinstance(await known.ask(frame), bytes)
            known.stop_decoding()
            assert await known.ask(sent[0]) == "decoded"
            assert isinstance(await known.ask(sent[1]), bytes)
            assert isinstance(await known.ask(sent[2]), bytes)

    asyncio.run(main())
