"""Which items are asked about again, of whom, and until when."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from levada.client.admin import NewTopic, OffsetSpec, request_router
from levada.client.errors import Disconnected, KafkaError, QuotaExceeded, TimedOut, UnknownTopicOrPartition
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from levada.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.unit.client.admin.scripted import SILENCE, ScriptedCluster, admin_of

A, B, C = (TopicPartition("orders", number) for number in range(3))
LATEST = OffsetSpec.LATEST


def created(request: CreateTopicsRequest, *codes: int) -> CreateTopicsResponse:
    """One code for each topic, the last for all that follow."""
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=codes[min(number, len(codes) - 1)], error_message=None)
            for number, topic in enumerate(request.topics)
        ]
    )


def offsets(request: ListOffsetsRequest, codes: Mapping[int, int] | None = None) -> ListOffsetsResponse:
    """The number of the partition, and its code."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=one.partition_index,
                        offset=one.partition_index,
                        error_code=(codes or {}).get(one.partition_index, 0),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def partitions_asked(cluster: ScriptedCluster) -> list[tuple[int | None, list[int]]]:
    return [
        (broker, [one.partition_index for topic in request.topics for one in topic.partitions])
        for broker, request in cluster.asked
        if request.api_key == ApiKey.LIST_OFFSETS
    ]


def in_turn(*answers: Any) -> Any:
    """An answer for each time it is asked, the last for ever."""
    left: Iterator[Any] = iter(answers)
    last: list[Any] = []

    def answer(request: Any, broker: int) -> Any:
        last[:] = [next(left, *last)]
        made = last[0](request)
        if isinstance(made, Exception):
            raise made
        return made

    return answer


def test_partitions_are_asked_of_their_leaders() -> None:
    cluster = ScriptedCluster(brokers=3)
    cluster.leads({"orders": [1, 2, 1]})
    cluster.on(ApiKey.LIST_OFFSETS, lambda request, _: offsets(request))
    found = asyncio.run(admin_of(cluster).list_offsets(dict.fromkeys((A, B, C), LATEST)))
    assert [one.offset for one in found.values()] == [0, 1, 2]
    assert partitions_asked(cluster) == [(1, [0, 2]), (2, [1])]


def test_only_what_failed_for_a_reason_that_passes_is_asked_again() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.leads({"orders": [1, 1, 1]})
    codes = {1: ErrorCode.NOT_LEADER_OR_FOLLOWER, 2: ErrorCode.TOPIC_AUTHORIZATION_FAILED}
    cluster.on(ApiKey.LIST_OFFSETS, in_turn(lambda request: offsets(request, codes), offsets))
    found = asyncio.run(admin_of(cluster).list_offsets(dict.fromkeys((A, B, C), LATEST)))
    assert partitions_asked(cluster) == [(1, [0, 1, 2]), (1, [1])]
    assert cluster.count(ApiKey.METADATA) == 2
    assert [one.offset for one in found.done.values()] == [0, 1]
    assert [error.code for error in found.errors.values()] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]


def test_a_lost_connection_is_tried_again_after_a_look_at_the_cluster() -> None:
    cluster = ScriptedCluster()
    cluster.on(ApiKey.CREATE_TOPICS, in_turn(lambda _: Disconnected("lost"), lambda request: created(request, 0)))
    asyncio.run(cluster.refresh())
    asyncio.run(admin_of(cluster).create_topics([NewTopic("orders", 1, 1)])).raise_any()
    assert (cluster.count(ApiKey.CREATE_TOPICS), cluster.refreshes) == (2, 2)


def test_a_broker_that_is_no_controller_is_asked_for_the_new_one() -> None:
    cluster = ScriptedCluster()
    refusal = int(ErrorCode.NOT_CONTROLLER)
    cluster.on(
        ApiKey.CREATE_TOPICS,
        in_turn(lambda request: created(request, 0, refusal), lambda request: created(request, 0)),
    )
    found = asyncio.run(admin_of(cluster).create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)]))
    assert list(found.done) == ["a", "b"]
    assert [[topic.name for topic in request.topics] for _, request in cluster.asked] == [["a", "b"], ["b"]]
    assert cluster.refreshes == 2


def test_what_a_controller_refuses_is_not_asked_again() -> None:
    cluster = ScriptedCluster()
    # Of a topic it may be that it was created; to ask again would say that it exists.
    cluster.on(ApiKey.CREATE_TOPICS, lambda request, _: created(request, ErrorCode.REQUEST_TIMED_OUT, 38))
    found = asyncio.run(admin_of(cluster).create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)]))
    assert [error.code for error in found.errors.values()] == [7, 38]
    assert cluster.count(ApiKey.CREATE_TOPICS) == 1


def test_a_quota_is_waited_for_only_when_that_is_wanted() -> None:
    over_quota = int(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    for retry, times in ((True, 2), (False, 1)):
        cluster = ScriptedCluster()
        cluster.on(ApiKey.CREATE_TOPICS, in_turn(lambda request: created(request, over_quota), lambda r: created(r, 0)))
        wanted = [NewTopic("orders", 1, 1)]
        found = asyncio.run(admin_of(cluster).create_topics(wanted, retry_on_quota_violation=retry))
        assert cluster.count(ApiKey.CREATE_TOPICS) == times
        assert [type(error) for error in found.errors.values()] == ([] if retry else [QuotaExceeded])


def test_who_waits_for_a_quota_in_vain_hears_of_the_quota() -> None:
    cluster = ScriptedCluster()
    cluster.on(ApiKey.CREATE_TOPICS, lambda request, _: created(request, ErrorCode.THROTTLING_QUOTA_EXCEEDED))
    found = asyncio.run(admin_of(cluster).create_topics([NewTopic("orders", 1, 1)], timeout_ms=30))
    assert [type(error) for error in found.errors.values()] == [QuotaExceeded]


def test_retries_are_counted() -> None:
    for retries in (0, 3):
        cluster = ScriptedCluster(retries=retries)
        cluster.leads({"orders": [1]})
        cluster.on(ApiKey.LIST_OFFSETS, lambda request, _: offsets(request, {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}))
        found = asyncio.run(admin_of(cluster).list_offsets({A: LATEST}))
        assert [error.code for error in found.errors.values()] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert cluster.count(ApiKey.LIST_OFFSETS) == retries + 1


def test_when_time_is_up_the_last_reason_is_told() -> None:
    cluster = ScriptedCluster()
    cluster.leads({"orders": [1, -1]})
    codes = {0: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    cluster.on(ApiKey.LIST_OFFSETS, lambda request, _: offsets(request, codes))
    with pytest.raises(TimedOut, match=r"gave up trying to list offsets after 50 ms .*NOT_LEADER") as refused:
        asyncio.run(admin_of(cluster).list_offsets({A: LATEST, B: LATEST}, timeout_ms=50))
    assert isinstance(refused.value.__cause__, KafkaError)
    assert cluster.count(ApiKey.LIST_OFFSETS) > 2


def test_a_silent_broker_does_not_keep_the_answers_of_the_others() -> None:
    cluster = ScriptedCluster(brokers=2)
    cluster.leads({"orders": [1, 2]})
    cluster.on(ApiKey.LIST_OFFSETS, lambda request, broker: SILENCE if broker == 2 else offsets(request))
    found = asyncio.run(admin_of(cluster).list_offsets({A: LATEST, B: LATEST}, timeout_ms=100))
    assert list(found.done) == [A]
    assert [type(error) for error in found.errors.values()] == [TimedOut]


def test_an_unknown_topic_is_believed_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_router, "DOUBT_MS", 50)
    cluster = ScriptedCluster()
    cluster.leads({"orders": [1]})
    cluster.on(ApiKey.LIST_OFFSETS, lambda request, _: offsets(request))
    nowhere = TopicPartition("nowhere", 0)
    found = asyncio.run(admin_of(cluster).list_offsets({A: LATEST, B: LATEST, nowhere: LATEST}))
    assert list(found.done) == [A]
    assert [type(error) for error in found.errors.values()] == [UnknownTopicOrPartition] * 2
    assert cluster.count(ApiKey.METADATA) > 3


def test_a_topic_that_becomes_known_meanwhile_is_found() -> None:
    cluster = ScriptedCluster()
    cluster.leads({})
    cluster.on(ApiKey.LIST_OFFSETS, lambda request, _: offsets(request))

    async def ask() -> Any:
        asked = asyncio.create_task(admin_of(cluster).list_offsets({A: LATEST}))
        await asyncio.sleep(0.02)
        cluster.leads({"orders": [1]})
        return await asked

    assert asyncio.run(ask())[A].offset == 0


def test_an_answer_that_leaves_an_item_out_is_no_answer() -> None:
    cluster = ScriptedCluster()
    cluster.on(ApiKey.CREATE_TOPICS, lambda request, _: CreateTopicsResponse(topics=created(request, 0).topics[:1]))
    found = asyncio.run(admin_of(cluster).create_topics([NewTopic("a", 1, 1), NewTopic("b", 1, 1)]))
    assert list(found.done) == ["a"]
    assert "leaves out b" in str(found.errors["b"])


def test_a_broker_has_no_more_time_than_the_caller() -> None:
    cluster = ScriptedCluster(request_timeout_ms=30_000)
    cluster.on(ApiKey.CREATE_TOPICS, lambda request, _: created(request, 0))
    admin = admin_of(cluster)
    asyncio.run(admin.create_topics([NewTopic("a", 1, 1)], timeout_ms=5_000))
    asyncio.run(admin.create_topics([NewTopic("a", 1, 1)]))
    first, second = (request.timeout_ms for _, request in cluster.asked)
    assert 4_000 < first <= 5_000
    assert second == 30_000


def test_nothing_is_asked_about_nothing() -> None:
    cluster = ScriptedCluster()
    empty: Sequence[NewTopic] = ()
    assert len(asyncio.run(admin_of(cluster).create_topics(empty))) == 0
    assert cluster.asked == []


def test_a_topic_cannot_be_wanted_twice() -> None:
    with pytest.raises(ValueError, match="given twice"):
        asyncio.run(admin_of(ScriptedCluster()).create_topics([NewTopic("a", 1), NewTopic("a", 2)]))
