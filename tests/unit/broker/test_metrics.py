"""What the broker counts, and that the page of metrics tells all of it."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Iterable
from dataclasses import replace
from math import exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from levada.broker.broker import Broker
from levada.broker.cleaning_figures import CleaningFigures, Pass, register_cleaning_gauges
from levada.broker.dispatch import Dispatcher
from levada.broker.gauges import (
    RUNNING,
    BrokerFigures,
    ControllerFigures,
    PartitionFigures,
    register_broker_gauges,
)
from levada.broker.group_gauges import register_group_gauges
from levada.broker.metrics import TOPIC_METERS, BrokerMetrics
from levada.broker.response_errors import error_codes, error_counter
from levada.broker.route import Request, Route
from levada.groups import CommittedOffset, GroupCounts, GroupSettings, commit_record
from levada.model.error_codes import ErrorCode
from levada.model.metrics import Registry, Value
from levada.net.connection import ServerConnection
from levada.protocol.api import ApiKey
from levada.protocol.codec import encode_bytes
from levada.protocol.headers import encode_request_header
from levada.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from levada.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from levada.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from levada.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from levada.world.process_metrics import ProcessMetrics
from levada.world.real import RealClock
from tests.unit.broker.hosted_groups import coordinator_of, loaded, offsets_partition

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
TOPICS = "kafka.server:type=BrokerTopicMetrics,name="
REQUESTS = "kafka.network:type=RequestMetrics,name="
TICK_MS = 5_000


def shown(metrics: BrokerMetrics) -> dict[str, dict[str, Value]]:
    return {reading.name: dict(reading.attributes) for reading in metrics.registry.collect()}


def produced(*codes: ErrorCode) -> ProduceResponse:
    partitions = [PartitionProduceResponse(index=at, error_code=code, base_offset=0) for at, code in enumerate(codes)]
    return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=partitions)])


# Topics


def test_counts_of_a_topic_are_its_own_and_part_of_all() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    metrics.topic("a").bytes_in += 100
    metrics.topic("a").bytes_in += 50
    metrics.topic("b").bytes_in += 30
    beans = shown(metrics)
    assert beans[f"{TOPICS}BytesInPerSec,topic=a"]["Count"] == 150
    assert beans[f"{TOPICS}BytesInPerSec,topic=b"]["Count"] == 30
    assert beans[f"{TOPICS}BytesInPerSec"]["Count"] == 180
    metrics.tick(TICK_MS)
    metrics.topic("b").bytes_in += 10
    metrics.tick(2 * TICK_MS)
    beans = shown(metrics)
    assert beans[f"{TOPICS}BytesInPerSec"]["Count"] == 190
    assert beans[f"{TOPICS}BytesInPerSec,topic=a"]["MeanRate"] == 15
    assert 6 > cast(float, beans[f"{TOPICS}BytesInPerSec,topic=b"]["OneMinuteRate"]) > 5


def test_a_topic_that_rested_has_the_rates_of_one_that_was_watched() -> None:
    def one_minute_rate(watched: bool) -> object:
        metrics = BrokerMetrics(Registry(), now_ms=0)
        for now_ms in range(TICK_MS, 60_001, TICK_MS):
            if now_ms in (TICK_MS, 40_000):
                metrics.topic("a").bytes_in += 1_000
            if watched:
                shown(metrics)
            metrics.tick(now_ms)
        return shown(metrics)[f"{TOPICS}BytesInPerSec,topic=a"]["OneMinuteRate"]

    # 200 a second in the first interval, and as much in the eighth; then four intervals of nothing.
    expected = (200 * exp(-35 / 60) + 200 * (1 - exp(-5 / 60))) * exp(-20 / 60)
    assert one_minute_rate(watched=True) == pytest.approx(expected)
    assert one_minute_rate(watched=False) == pytest.approx(expected)


def test_what_a_topic_never_did_has_no_meter() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    metrics.topic("a").failed_fetch_requests += 1
    metrics.topic("a").invalid_message_crc_records += 2
    beans = shown(metrics)
    assert [name for name in beans if "topic=a" in name] == [f"{TOPICS}FailedFetchRequestsPerSec,topic=a"]
    assert beans[f"{TOPICS}InvalidMessageCrcRecordsPerSec"]["Count"] == 2
    assert beans[f"{TOPICS}BytesInPerSec"]["Count"] == 0


def test_a_deleted_topic_leaves_its_counts_to_all_topics() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    metrics.topic("a").messages_in += 7
    metrics.tick(TICK_MS)
    metrics.topic("a").messages_in += 1
    metrics.forget_topic("a")
    metrics.forget_topic("never seen")
    metrics.topic("a").messages_in += 2
    beans = shown(metrics)
    assert beans[f"{TOPICS}MessagesInPerSec"]["Count"] == 10
    assert beans[f"{TOPICS}MessagesInPerSec,topic=a"]["Count"] == 2, "a new topic of the same name begins anew"


# Requests


def test_a_request_answered_at_once_is_all_local_time() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    metrics.apis[ApiKey.HEARTBEAT].record(4, 100, 8_000, HeartbeatResponse())
    metrics.apis[ApiKey.HEARTBEAT].record(3, 70_000, 90_000_000, HeartbeatResponse())
    beans = shown(metrics)
    assert beans[f"{REQUESTS}RequestsPerSec,request=Heartbeat,version=4"]["Count"] == 1
    assert beans[f"{REQUESTS}RequestsPerSec,request=Heartbeat,version=3"]["Count"] == 1
    for name in ("TotalTimeMs", "LocalTimeMs"):
        times = beans[f"{REQUESTS}{name},request=Heartbeat"]
        assert (times["Count"], times["Min"]) == (2, 0.008)
        assert times["Max"] == pytest.approx(90, rel=1 / 16)
    assert beans[f"{REQUESTS}RemoteTimeMs,request=Heartbeat"]["Max"] == 0
    assert beans[f"{REQUESTS}RemoteTimeMs,request=Heartbeat"]["Count"] == 2
    sizes = beans[f"{REQUESTS}RequestBytes,request=Heartbeat"]
    assert sizes["Min"] == pytest.approx(100, rel=1 / 16)
    assert sizes["Max"] == pytest.approx(70_000, rel=1 / 16)


def test_waiting_is_remote_time() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    api = metrics.apis[ApiKey.FETCH]
    api.record_waited(17, 100, 15_000, 500_000_000, FetchResponse(responses=[]))
    api.record(17, 100, 2_000, FetchResponse(responses=[]))
    beans = shown(metrics)
    assert beans[f"{REQUESTS}RequestsPerSec,request=FetchConsumer,version=17"]["Count"] == 2
    assert beans[f"{REQUESTS}LocalTimeMs,request=FetchConsumer"]["Max"] == 0.015
    remote = beans[f"{REQUESTS}RemoteTimeMs,request=FetchConsumer"]
    assert (remote["Count"], remote["Min"]) == (2, 0)
    assert remote["Max"] == pytest.approx(500, rel=1 / 16)
    total = beans[f"{REQUESTS}TotalTimeMs,request=FetchConsumer"]
    assert (total["Count"], total["Min"]) == (2, 0.002)
    assert total["Max"] == pytest.approx(500, rel=1 / 16)


def test_errors_are_counted_by_code_and_success_by_response() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    api = metrics.apis[ApiKey.PRODUCE]
    none, late, wrong = ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.CORRUPT_MESSAGE
    for response in (produced(none, none), produced(late, late, none), produced(wrong), None):
        api.record(9, 10, 1_000, response)
    api.record_waited(9, 10, 1_000, 1_000, produced(late))
    metrics.tick(TICK_MS)
    errors = {name.rpartition("=")[2]: bean for name, bean in shown(metrics).items() if "ErrorsPerSec" in name}
    assert {error: bean["Count"] for error, bean in errors.items()} == {
        "NONE": 2,
        "REQUEST_TIMED_OUT": 3,
        "CORRUPT_MESSAGE": 1,
    }
    assert errors["NONE"]["OneMinuteRate"] == 0.4


def test_errors_of_fetch_are_under_its_plain_name() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    metrics.apis[ApiKey.FETCH].record(17, 10, 1_000, FetchResponse(responses=[]))
    assert f"{REQUESTS}ErrorsPerSec,request=Fetch,error=NONE" in shown(metrics)


def test_error_codes_are_found_wherever_they_are() -> None:
    codes: Counter[int] = Counter()
    failed = PartitionData(
        partition_index=0,
        error_code=ErrorCode.OFFSET_OUT_OF_RANGE,
        high_watermark=0,
        aborted_transactions=[],
        records=b"",
    )
    fetched = FetchableTopicResponse(topic="t", partitions=[failed])
    response = FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[fetched])
    assert error_counter(FetchResponse)(response, codes) == 2
    partition = AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=ErrorCode.INVALID_TXN_STATE)
    topic = AddPartitionsToTxnTopicResult(name="t", results_by_partition=[partition])
    added = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    assert error_counter(AddPartitionsToTxnResponse)(added, codes) == 1
    assert error_counter(HeartbeatResponse)(HeartbeatResponse(), codes) == 0
    assert codes == {1: 1, 70: 1, 48: 1}
    assert [code for code in error_codes(FetchResponse)(response) if code] == [70, 1]
    assert not any(error_codes(HeartbeatResponse)(HeartbeatResponse()))


def test_the_errors_of_a_large_response_are_counted_in_slices() -> None:
    metrics = BrokerMetrics(Registry(), now_ms=0)
    partitions = [
        OffsetCommitResponsePartition(partition_index=index, error_code=index % 2 and ErrorCode.UNKNOWN_MEMBER_ID)
        for index in range(12_000)
    ]
    topic = OffsetCommitResponseTopic(name="t", partitions=partitions)
    counted = metrics.apis[ApiKey.OFFSET_COMMIT].count_errors_in_slices(OffsetCommitResponse(topics=[topic]))
    assert list(counted) == [2_500, 5_000, 6_000]
    metrics.tick(TICK_MS)
    counter = shown(metrics)[f"{REQUESTS}ErrorsPerSec,request=OffsetCommit,error=UNKNOWN_MEMBER_ID"]
    assert counter["Count"] == 6_000


# Dispatch


class SteppingClock:
    """Time passes where a test says so."""

    def __init__(self) -> None:
        self.ns = 10**18

    def now_ms(self) -> int:
        return self.ns // 1_000_000

    def monotonic_ms(self) -> int:
        return self.now_ms()

    def perf_ns(self) -> int:
        return self.ns


class Dispatched:
    """A dispatcher with one API, whose handler takes the time it is told to."""

    def __init__(self) -> None:
        self.clock = SteppingClock()
        self.metrics = BrokerMetrics(Registry(), self.clock.monotonic_ms())
        broker = cast(Broker, SimpleNamespace(clock=self.clock))
        versions = range(5)
        route = Route(ApiKey.HEARTBEAT, versions, versions, 4, HeartbeatRequest, self._handle)
        self._dispatcher = Dispatcher({route.api_key: route}, broker, self.metrics)
        self.local_ns = 0
        self.sent_bytes = 0
        self.waiting: asyncio.Future[HeartbeatResponse] | None = None

    def send(self, version: int) -> Any:
        body = encode_bytes(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), version)
        frame = memoryview(encode_request_header(ApiKey.HEARTBEAT, version, 1, "c") + body)
        self.sent_bytes = len(frame)
        return self._dispatcher(
            frame, cast(ServerConnection, SimpleNamespace(peer="p", listener="PLAINTEXT", serves_brokers=True))
        )

    def _handle(self, message: HeartbeatRequest, request: Request) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
        self.clock.ns += self.local_ns
        return self.waiting or HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)


def test_dispatch_records_what_it_answers() -> None:
    dispatched = Dispatched()
    dispatched.local_ns = 12_000
    assert dispatched.send(4)
    beans = shown(dispatched.metrics)
    assert beans[f"{REQUESTS}RequestsPerSec,request=Heartbeat,version=4"]["Count"] == 1
    assert beans[f"{REQUESTS}ErrorsPerSec,request=Heartbeat,error=UNKNOWN_MEMBER_ID"]["Count"] == 1
    assert beans[f"{REQUESTS}TotalTimeMs,request=Heartbeat"]["Max"] == 0.012
    assert beans[f"{REQUESTS}RequestBytes,request=Heartbeat"]["Max"] == dispatched.sent_bytes


def test_dispatch_tells_waiting_from_working() -> None:
    async def main() -> None:
        dispatched.waiting = asyncio.get_running_loop().create_future()
        dispatched.local_ns = 9_000
        reply = dispatched.send(0)
        await asyncio.sleep(0)
        assert f"{REQUESTS}TotalTimeMs,request=Heartbeat" not in shown(dispatched.metrics)
        dispatched.clock.ns += 11_000
        dispatched.waiting.set_result(HeartbeatResponse())
        assert await reply

    dispatched = Dispatched()
    asyncio.run(main())
    beans = shown(dispatched.metrics)
    times = {name: beans[f"{REQUESTS}{name},request=Heartbeat"]["Max"] for name in ("LocalTimeMs", "RemoteTimeMs")}
    assert times == {"LocalTimeMs": 0.009, "RemoteTimeMs": 0.011}
    assert beans[f"{REQUESTS}ErrorsPerSec,request=Heartbeat,error=NONE"]["Count"] == 1


# Gauges


def partition(index: int, *, is_leader: bool = True, in_sync_replicas: int = 3) -> PartitionFigures:
    return PartitionFigures(
        topic="t",
        partition=index,
        is_leader=is_leader,
        replicas=3,
        in_sync_replicas=in_sync_replicas,
        min_in_sync_replicas=2,
        log_size=1_000,
        retention_bytes=3_000,
        segments=4,
        log_start_offset=5,
        log_end_offset=100,
        high_watermark=90,
        last_stable_offset=80,
        producer_ids=2,
    )


class View:
    def partitions(self) -> Iterable[PartitionFigures]:
        yield partition(0)
        yield partition(1, in_sync_replicas=2)
        yield partition(2, in_sync_replicas=1)
        yield partition(3, is_leader=False, in_sync_replicas=1)

    def broker(self) -> BrokerFigures:
        waiting, connections = {"Fetch": 3}, {"PLAINTEXT": 12}
        directories = {"/data": False}
        return BrokerFigures(
            state=RUNNING,
            cluster_id="c",
            log_directories=directories,
            delayed_operations=waiting,
            connections=connections,
        )

    def controller(self) -> ControllerFigures:
        return ControllerFigures(is_active=True, topics=2, partitions=9)


def test_counts_of_partitions_are_of_those_led_here() -> None:
    registry = Registry()
    register_broker_gauges(registry, View())
    beans = {reading.name: reading.attributes for reading in registry.collect()}
    counts = {name.rpartition("=")[2]: bean["Value"] for name, bean in beans.items() if "ReplicaManager" in name}
    assert counts == {
        "OfflineReplicaCount": 0,
        "PartitionCount": 4,
        "LeaderCount": 3,
        "UnderReplicatedPartitions": 2,
        "UnderMinIsrPartitionCount": 1,
        "AtMinIsrPartitionCount": 1,
        "ProducerIdCount": 8,
    }
    assert beans["kafka.cluster:type=Partition,name=LastStableOffsetLag,topic=t,partition=0"]["Value"] == 10
    assert beans["kafka.cluster:type=Partition,name=ReplicasCount,topic=t,partition=3"]["Value"] == 0
    assert beans["kafka.log:type=Log,name=LogEndOffset,topic=t,partition=3"]["Value"] == 100
    assert beans["kafka.log:type=Log,name=RetentionSizeInPercent,topic=t,partition=3"]["Value"] == 33
    assert beans["kafka.controller:type=KafkaController,name=ActiveControllerCount"]["Value"] == 1


def test_a_log_without_a_limit_is_at_no_percentage_of_it() -> None:
    assert replace(partition(0), retention_bytes=-1).retention_size_percent == 0
    assert replace(partition(0), retention_bytes=0).retention_size_percent == 0
    assert replace(partition(0), retention_bytes=500).retention_size_percent == 200


def test_groups_and_offsets_are_counted(tmp_path: Path) -> None:
    async def main() -> None:
        registry, counts = Registry(), GroupCounts(offset_commits=7)
        coordinator = coordinator_of(GroupSettings(), RealClock())
        register_group_gauges(registry, coordinator, counts)
        await loaded(coordinator, offsets_partition(tmp_path))
        request = OffsetCommitRequest(group_id="g", member_id="", topics=[])
        records = [commit_record("g", "t", index, CommittedOffset(1, 0, "", 0)) for index in range(3)]
        _: list[ErrorCode] = await coordinator.submit(
            "g", lambda machine, token, now_ms: machine.commit(token, request, 9, records, now_ms)
        )
        beans = {reading.name: reading.attributes for reading in registry.collect()}
        manager = "kafka.server:type=GroupMetadataManager,name="
        assert [beans[manager + name]["Value"] for name in ("NumOffsets", "NumGroups", "NumGroupsEmpty")] == [3, 1, 1]
        of_all = "kafka.server:type=group-coordinator-metrics"
        assert beans[of_all]["offset-commit-count"] == 7
        assert beans[f"{of_all},state=active"]["num-partitions"] == 1
        assert beans[f"{of_all},protocol=classic"]["group-count"] == 1
        coordinator.close()

    asyncio.run(main())


def test_the_gauges_of_cleaning_tell_of_the_last_pass_and_of_what_is_left_alone() -> None:
    registry, figures = Registry(), CleaningFigures()
    register_cleaning_gauges(registry, ["/data"], figures, lambda: 5_000)
    figures.note_round(now_ms=4_000, max_ratio=0.25, delay_ms=7_500)
    figures.note_pass(Pass(seconds=2.5, bytes_read=1_000, bytes_kept=400, utilization=0.5))
    figures.uncleanable["orders", 0] = ("/data", 123)
    values = {reading.family.rpartition("name=")[2]: reading.attributes["Value"] for reading in registry.collect()}
    assert values == {
        "cleaner-recopy-percent": 40,
        "max-clean-time-secs": 2,
        "max-compaction-delay-secs": 7,
        "max-buffer-utilization-percent": 50,
        "DeadThreadCount": 0,
        "bytes-cleaned": 1_000,
        "max-dirty-percent": 25,
        "time-since-last-run-ms": 1_000,
        "uncleanable-partitions-count": 1,
        "uncleanable-bytes": 123,
    }


# The page


def test_the_page_of_metrics_names_all_of_them_and_no_others() -> None:
    registry = Registry()
    metrics = BrokerMetrics(registry, now_ms=0)
    register_broker_gauges(registry, View())
    register_group_gauges(registry, coordinator_of(GroupSettings(), RealClock()), GroupCounts())
    register_cleaning_gauges(registry, ["/data"], CleaningFigures(), lambda: 0)
    ProcessMetrics(registry, now_ms=0)
    for counter in TOPIC_METERS:
        setattr(metrics.topic("t"), counter, 1)
    metrics.apis[ApiKey.PRODUCE].record(9, 10, 1_000, None)
    served = {
        (
            re.sub(r"generation \d", "generation {0, 1, 2}", reading.family)
            + "".join(f",{tag}={{{tag}}}" for tag in reading.tags),
            reading.kind,
        )
        for reading in registry.collect()
    }
    written = re.findall(r"^\| `([a-z.]+:type[^`]*)` \| (\w+) \| \S", PAGE.read_text(), re.MULTILINE)
    assert len(written) == len(set(written))
    assert set(written) == served
