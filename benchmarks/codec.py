"""Levada's codec beside kio's in one run: what a broker does for a request, decode it and encode the answer."""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from kio.index import load_entity_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from levada.protocol.codec import decode, encode, encode_bytes
from levada.protocol.messages import fetch, join_group, metadata, produce

ALLOWED = {
    # Measured when the codec was designed: compiled functions over kio, with 30 % of slack.
    "Produce v9, 16 KB": 1.3 * 3.9 / 15.8,
    "Fetch v12, 10 partitions": 1.3 * 21 / 91,
    "JoinGroup v9, 10 members": 1.3 * 7 / 72,
    "Metadata v12 response, 1000 partitions": 1.3 * 940 / 8379,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    rows = [measure(name, *case, rounds=arguments.rounds) for name, case in cases().items()]
    print(f"{'':42}{'levada µs':>12}{'kio µs':>10}{'ratio':>8}{'allowed':>9}")
    for row in rows:
        print(f"{row['name']:42}{row['levada_us']:12.1f}{row['kio_us']:10.1f}{row['ratio']:8.3f}{row['allowed']:9.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0 if all(row["ratio"] <= row["allowed"] for row in rows) else 1


def measure(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], loops: int, *, rounds: int
) -> dict[str, Any]:
    """Interleaved rounds, so that a busy neighbour disturbs both alike."""
    our_times, their_times = [], []
    for _ in range(rounds):
        our_times.append(timed(ours, loops))
        their_times.append(timed(theirs, max(1, loops // 4)))
    mine, other = statistics.median(our_times), statistics.median(their_times)
    return {"name": name, "levada_us": mine, "kio_us": other, "ratio": mine / other, "allowed": ALLOWED[name]}


def timed(call: Callable[[], object], loops: int) -> float:
    start = time.perf_counter()
    for _ in range(loops):
        call()
    return (time.perf_counter() - start) / loops * 1e6


def cases() -> dict[str, tuple[Callable[[], object], Callable[[], object], int]]:
    return {
        "Produce v9, 16 KB": exchange(produce_request(), produce_response(), "produce", 9, 2000),
        "Fetch v12, 10 partitions": exchange(fetch_request(), fetch_response(), "fetch", 12, 400),
        "JoinGroup v9, 10 members": exchange(join_request(), join_response(), "join_group", 9, 1000),
        "Metadata v12 response, 1000 partitions": exchange(None, metadata_response(), "metadata", 12, 5),
    }


def exchange(
    request: Any, response: Any, name: str, version: int, loops: int
) -> tuple[Callable[[], object], Callable[[], object], int]:
    frame = b"" if request is None else encode_bytes(request, version)
    view = memoryview(frame)
    peer_response = load_entity_schema(name, version, EntityType.response)
    write = entity_writer(peer_response)
    answer, _ = entity_reader(peer_response)(encode_bytes(response, version), 0)
    read = entity_reader(load_entity_schema(name, version, EntityType.request))
    request_class = type(request)

    def ours() -> None:
        if request is not None:
            decode(request_class, version, view)
        encode(response, version)

    def theirs() -> None:
        if request is not None:
            read(frame, 0)
        write(BytesIO(), answer)

    return ours, theirs, loops


def produce_request() -> produce.ProduceRequest:
    partition = produce.PartitionProduceData(index=0, records=bytes(16_384))
    topic = produce.TopicProduceData(name="benchmark", partition_data=[partition])
    return produce.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def produce_response() -> produce.ProduceResponse:
    partition = produce.PartitionProduceResponse(index=0, base_offset=1_000, log_append_time_ms=-1, log_start_offset=0)
    return produce.ProduceResponse(
        responses=[produce.TopicProduceResponse(name="benchmark", partition_responses=[partition])]
    )


def fetch_request() -> fetch.FetchRequest:
    partitions = [
        fetch.FetchPartition(partition=index, fetch_offset=1_000, partition_max_bytes=1 << 20) for index in range(10)
    ]
    return fetch.FetchRequest(
        max_wait_ms=500, min_bytes=1, topics=[fetch.FetchTopic(topic="benchmark", partitions=partitions)]
    )


def fetch_response() -> fetch.FetchResponse:
    records = bytes(16_384)
    partitions = [
        fetch.PartitionData(
            partition_index=index,
            high_watermark=1_000,
            last_stable_offset=1_000,
            log_start_offset=0,
            aborted_transactions=None,
            records=records,
        )
        for index in range(10)
    ]
    return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(topic="benchmark", partitions=partitions)])


def join_request() -> join_group.JoinGroupRequest:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=bytes(100))
    return join_group.JoinGroupRequest(
        group_id="benchmark-group",
        session_timeout_ms=45_000,
        rebalance_timeout_ms=300_000,
        member_id="consumer-1-6d0f1d3e",
        protocol_type="consumer",
        protocols=[protocol],
    )


def join_response() -> join_group.JoinGroupResponse:
    members = [
        join_group.JoinGroupResponseMember(member_id=f"consumer-{index}-6d0f1d3e", metadata=bytes(100))
        for index in range(10)
    ]
    return join_group.JoinGroupResponse(
        generation_id=7,
        protocol_type="consumer",
        protocol_name="range",
        leader="consumer-0-6d0f1d3e",
        member_id="consumer-0-6d0f1d3e",
        members=members,
    )


def metadata_response() -> metadata.MetadataResponse:
    broker = metadata.MetadataResponseBroker(node_id=1, host="localhost", port=9092)
    partitions = [
        metadata.MetadataResponsePartition(
            partition_index=index, leader_id=1, leader_epoch=0, replica_nodes=[1, 2, 3], isr_nodes=[1, 2, 3]
        )
        for index in range(1000)
    ]
    topic = metadata.MetadataResponseTopic(name="benchmark", partitions=partitions)
    return metadata.MetadataResponse(brokers=[broker], cluster_id="benchmark", controller_id=1, topics=[topic])


if __name__ == "__main__":
    sys.exit(main())
