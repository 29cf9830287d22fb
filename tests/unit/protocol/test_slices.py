"""Messages in slices: the same bytes and the same objects as in one go, and a limit to what is decoded in one go."""

import random
from collections.abc import Generator
from typing import Any, cast

import pytest

from levada.broker.handlers import HANDLERS
from levada.broker.large_requests import elements_in
from levada.broker.route import routes_of
from levada.protocol.api import ApiKey, request_class, response_class
from levada.protocol.codec import (
    decode,
    encode_bytes,
    limited_decoder_of,
    sliced_decoder_of,
    sliced_encoder_of,
)
from levada.protocol.errors import CannotEncode, TooManyElements
from levada.protocol.messages.fetch import FetchRequest, ForgottenTopic
from levada.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from levada.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from levada.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from levada.protocol.runtime import MAX_ELEMENTS_AT_ONCE, new_count
from tests.fuzz.values import Values


def run_out(slices: Generator[None, None, Any]) -> tuple[Any, int]:
    """What a generator returns, and how often it paused."""
    pauses = 0
    while True:
        try:
            next(slices)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1


@pytest.mark.parametrize("kind", [request_class, response_class], ids=["request", "response"])
@pytest.mark.parametrize("api", sorted(routes_of(HANDLERS)), ids=lambda api: ApiKey(api).name)
def test_slices_are_what_all_at_once_is(api: ApiKey, kind: Any) -> None:
    cls = kind(api)
    values, chance = Values(), random.Random(int(api))
    for version in cls.versions:
        for _ in range(5):
            message = values.message(chance, cls, version)
            try:
                whole = encode_bytes(message, version)
            except CannotEncode:
                continue
            pieces: list[bytes] = []
            run_out(sliced_encoder_of(cls, version)(message, pieces.append))
            assert b"".join(pieces) == whole
            (decoded, position), _ = run_out(sliced_decoder_of(cls, version)(whole, 0, len(whole), new_count()))
            assert position == len(whole)
            assert decoded == decode(cls, version, whole)
            try:
                assert limited_decoder_of(cls, version)(whole, 0, len(whole)) == (decoded, len(whole))
            except TooManyElements:
                assert elements_in(message) > MAX_ELEMENTS_AT_ONCE


def names(count: int) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(count)])


def tagged(count: int) -> MetadataRequest:
    message: Any = MetadataRequest(topics=[])
    message.unknown_tags = dict.fromkeys(range(count), b"")
    return cast(MetadataRequest, message)


def nested(topics: int, partitions: int) -> ListOffsetsRequest:
    asks = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(partitions)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asks)] * topics)


@pytest.mark.parametrize(
    ("message", "is_much"),
    [
        (names(MAX_ELEMENTS_AT_ONCE), False),
        (names(MAX_ELEMENTS_AT_ONCE + 1), True),
        (nested(10, 99), False),
        (nested(10, 100), True),
        (tagged(10_000), True),
        (OffsetForLeaderEpochRequest(replica_id=-1, topics=[]), False),
    ],
    ids=["as many as allowed", "one more", "few in each", "few in each of many", "tags", "none"],
)
def test_a_request_of_many_elements_is_not_decoded_in_one_go(message: Any, is_much: bool) -> None:
    cls, version = type(message), message.versions[-1]
    data = encode_bytes(message, version)
    limited = limited_decoder_of(cls, version)
    if not is_much:
        assert limited(data, 0, len(data))[0] == message
        return
    with pytest.raises(TooManyElements):
        limited(data, 0, len(data))
    done = new_count()
    (decoded, _), pauses = run_out(sliced_decoder_of(cls, version)(data, 0, len(data), done))
    assert decoded == message
    assert done[0] > MAX_ELEMENTS_AT_ONCE
    assert pauses >= done[0] // 512


def test_elements_of_short_arrays_are_counted() -> None:
    partitions = [ForgottenTopic(topic="t", partitions=list(range(15))) for _ in range(100)]
    data = encode_bytes(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], forgotten_topics_data=partitions), 12)
    done = new_count()
    run_out(sliced_decoder_of(FetchRequest, 12)(data, 0, len(data), done))
    assert done[0] == 100 * 16


@pytest.mark.parametrize("partitions", range(5))
def test_a_pause_is_not_passed_over_whatever_number_of_elements_each_topic_has(partitions: int) -> None:
    indexes = list(range(partitions))
    topics = [ListPartitionReassignmentsTopics(name="t", partition_indexes=indexes) for _ in range(5_000)]
    data = encode_bytes(ListPartitionReassignmentsRequest(topics=topics), 0)
    done = new_count()
    _, pauses = run_out(sliced_decoder_of(ListPartitionReassignmentsRequest, 0)(data, 0, len(data), done))
    assert done[0] == 5_000 * (1 + partitions)
    assert pauses >= done[0] // (512 + partitions) - 1
