"""A request that ends before its last field closes the connection, and the log says so in plain words."""

import asyncio
from pathlib import Path

from levada.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.unit.broker.fast_path_requests import frame_of, two_sides

TOPIC = CreatableTopic(name="words", num_partitions=1, replication_factor=1, assignments=[], configs=[])
REQUESTS = (
    (MetadataRequest(topics=[MetadataRequestTopic(name="words")]), 12),
    (MetadataRequest(topics=[MetadataRequestTopic(name="words")]), 4),
    (CreateTopicsRequest(topics=[TOPIC]), 5),
)


def test_every_cut_of_a_request_is_told_apart_from_a_fault_of_ours(tmp_path: Path) -> None:
    async def main() -> None:
        async with two_sides(tmp_path) as (_, decoded):
            for message, version in REQUESTS:
                frame = frame_of(message, version)
                reasons = {await decoded.ask(frame[:size]) for size in range(len(frame))}
                assert "the request ends too early" in reasons
                assert all(isinstance(reason, str) for reason in reasons)
                words = " ".join(str(reason) for reason in reasons)
                assert not any(python in words for python in ("unpack", "index out of range", "buffer of")), words

    asyncio.run(main())
