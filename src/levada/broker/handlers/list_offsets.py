"""ListOffsets v1-11. v2 isolation level, v4 leader epochs (KIP-320), v7 the newest record (KIP-734), v8 local start."""

from collections.abc import Awaitable, Generator, Iterator
from functools import partial
from typing import NamedTuple, TypeAlias

from levada.broker.route import Request
from levada.model.errors import ApiError, InvalidRequest, UnsupportedVersion
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import NO_UUID
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from levada.records import RecordsError
from levada.storage.lookups import Call, Search
from levada.storage.outcomes import FoundRecord

API = ApiKey.LIST_OFFSETS
VERSIONS = stable_versions(API)

LATEST = -1
EARLIEST = -2
NEWEST_RECORD = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
SINCE = {LATEST: 1, EARLIEST: 1, NEWEST_RECORD: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
"""The first version in which each stands for something else than a time."""
READ_COMMITTED = 1
LEADER_EPOCH_SINCE = 4

UNKNOWN = -1
NEVER = 1 << 15


def handle(message: ListOffsetsRequest, request: Request) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    if any(_is_searched(wanted.timestamp) for topic in message.topics for wanted in topic.partitions):
        return _search_and_answer(message, request)
    answers = {
        (name, wanted.partition_index): _answer(wanted, found, request)
        for name, wanted, found in _look_up(message, request)
    }
    return _response(message, answers)


async def _search_and_answer(message: ListOffsetsRequest, request: Request) -> ListOffsetsResponse:
    """By time: searches may take long, so that others have their turn between the steps."""
    steps, turns = _steps(message, request), request.broker.search_turns
    go_on = partial(steps.send, None)
    while True:
        async with turns:
            try:
                call = go_on()
                while call is None and not turns.is_over:
                    call = steps.send(None)
            except StopIteration as done:
                response: ListOffsetsResponse = done.value
                return response
        go_on = partial(steps.send, None)
        if call is not None:
            try:
                go_on = partial(steps.send, await turns.compute(call))
            except RecordsError as error:
                go_on = partial(steps.throw, error)


def _steps(
    message: ListOffsetsRequest, request: Request
) -> Generator[Call | None, FoundRecord | None, ListOffsetsResponse]:
    """Those of all searches of a request, one after the other; returns its answer."""
    answers: dict[tuple[str, int], ListOffsetsPartitionResponse] = {}
    for name, wanted, found in _look_up(message, request):
        if isinstance(found, Searched):
            try:
                record = yield from found.steps
                found = record if record is not None and record.offset < found.end else None
            except ApiError as error:
                found = error
        answers[name, wanted.partition_index] = _answer(wanted, found, request)
        yield None
    return _response(message, answers)


class Searched(NamedTuple):
    """A search that is to be made, and the end of what the client may see."""

    steps: Search
    end: int


Found: TypeAlias = FoundRecord | Searched | ApiError | None


def _is_searched(timestamp: int) -> bool:
    return timestamp >= 0 or timestamp == NEWEST_RECORD


def _look_up(message: ListOffsetsRequest, request: Request) -> Iterator[tuple[str, ListOffsetsPartition, Found]]:
    """Each partition as it is asked for; one that is asked for again is refused."""
    seen: set[tuple[str, int]] = set()
    for topic in message.topics:
        for wanted in topic.partitions:
            key = topic.name, wanted.partition_index
            if key in seen:
                yield topic.name, wanted, InvalidRequest("asked for twice")
                continue
            seen.add(key)
            yield topic.name, wanted, _find(topic.name, wanted, message, request)


def _find(topic: str, wanted: ListOffsetsPartition, message: ListOffsetsRequest, request: Request) -> Found:
    timestamp = wanted.timestamp
    if timestamp < 0 and request.version < SINCE.get(timestamp, NEVER):
        return UnsupportedVersion("this version does not know that time")
    try:
        partition = request.broker.partition(topic, NO_UUID, wanted.partition_index)
        partition.check_epoch(wanted.current_leader_epoch)
    except ApiError as error:
        return error
    log = partition.log
    end = log.last_stable_offset if message.isolation_level == READ_COMMITTED else log.high_watermark
    if timestamp == LATEST:
        return FoundRecord(end, UNKNOWN, log.epochs.latest)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundRecord(log.start_offset, UNKNOWN, log.epochs.epoch_at(log.start_offset))
    if timestamp == NEWEST_RECORD:
        return Searched(log.search_newest(), end)
    # The others ask about tiers that this log does not have: there is nothing to find.
    return Searched(log.search_since(timestamp), end) if timestamp >= 0 else None


def _answer(wanted: ListOffsetsPartition, found: Found, request: Request) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    if isinstance(found, ApiError):
        answer.error_code = found.code
    elif found is not None:
        assert isinstance(found, FoundRecord), "what is searched was found by now"
        answer.timestamp = found.timestamp_ms
        answer.offset = found.offset
        answer.leader_epoch = found.leader_epoch if request.version >= LEADER_EPOCH_SINCE else UNKNOWN
    return answer


def _response(
    message: ListOffsetsRequest, answers: dict[tuple[str, int], ListOffsetsPartitionResponse]
) -> ListOffsetsResponse:
    topics: dict[str, list[ListOffsetsPartitionResponse]] = {topic.name: [] for topic in message.topics}
    for (name, _), answer in answers.items():
        topics[name].append(answer)
    return ListOffsetsResponse(
        topics=[ListOffsetsTopicResponse(name=name, partitions=found) for name, found in topics.items()]
    )
