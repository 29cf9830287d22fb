"""Reads all replicas round by round, compares each round's answers, and reports how far it is."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from levada.cli.kit.refusals import FAILED, warn
from levada.cli.kit.terminal import ProgressBar, paint, progress
from levada.cli.replica_verification.comparison import NOTHING, Fetched, Verdict, compare
from levada.client.cluster import Cluster
from levada.client.default_world import default_world
from levada.client.errors import Disconnected, TimedOut, error_for
from levada.client.options import admin_options
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode
from levada.protocol.api import ApiKey
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from levada.world.disk import FileRange

DEBUGGER: Final = -2
"""As a replica's id: a reader that any replica answers, not the leader alone, up to its end."""
STATE_SINCE: Final = 15
"""The version of Fetch that has the replica's id in another place."""
MIN_BYTES: Final = 1
SLACK_MS: Final = 30_000


@dataclass(frozen=True, slots=True)
class VerificationTask:
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    topic_ids: Mapping[str, bytes]
    start: Mapping[TopicPartition, int]
    backlog: int
    """How many records there are to verify already."""
    fetch_size: int
    max_wait_ms: int
    report_interval_ms: int


async def verify(servers: str, settings: Mapping[str, Any], task: VerificationTask) -> int:
    """Until it is cancelled, or until there is nothing left to compare, which is exit code 1."""
    cluster = Cluster(default_world(), admin_options(servers, settings), creates_topics=False)
    try:
        await cluster.refresh()
        with progress("verifying", task.backlog or None) as shown:
            return await _Verification(cluster, task, shown).run()
    finally:
        await cluster.close()


class _Verification:
    def __init__(self, cluster: Cluster, task: VerificationTask, shown: ProgressBar) -> None:
        self._cluster = cluster
        self._task = task
        self._shown = shown
        self._offsets = dict(task.start)
        self._by_broker: dict[int, list[TopicPartition]] = {}
        for partition, brokers in task.replicas.items():
            for broker in brokers:
                self._by_broker.setdefault(broker, []).append(partition)
        self._reported = time.monotonic()
        self._complaints: set[str] = set()

    async def run(self) -> int:
        self._print("verification process is started")
        while True:
            answers = await asyncio.gather(
                *(self._fetch(broker, partitions) for broker, partitions in self._by_broker.items())
            )
            fetched = dict(zip(self._by_broker, answers, strict=True))
            before = sum(self._offsets.values())
            verdicts = {
                partition: compare(
                    partition, self._offsets[partition], {one: fetched[one].get(partition, NOTHING) for one in brokers}
                )
                for partition, brokers in self._task.replicas.items()
            }
            for partition, verdict in verdicts.items():
                for fault in verdict.faults:
                    self._print(fault, style="red")
                self._offsets[partition] = verdict.next_offset
            if any(verdict.is_hopeless for verdict in verdicts.values()):
                return FAILED
            advanced = sum(self._offsets.values()) - before
            if advanced:
                self._shown.advance(advanced)
            self._report(verdicts)
            if not advanced:
                await self._rest(verdicts)

    async def _rest(self, verdicts: Mapping[TopicPartition, Verdict]) -> None:
        """Brokers wait by themselves for records that are not there, not for a replica that lags or is away."""
        if any(verdict.lag > 0 for verdict in verdicts.values()):
            await asyncio.sleep(self._task.max_wait_ms / 1_000)

    def _report(self, verdicts: Mapping[TopicPartition, Verdict]) -> None:
        now = time.monotonic()
        if (now - self._reported) * 1_000 <= self._task.report_interval_ms:
            return
        self._reported = now
        partition, worst = max(verdicts.items(), key=lambda one: one[1].lag)
        lag = str(worst.lag) if worst.lag <= 0 else paint(str(worst.lag), "yellow")
        self._print(
            f"max lag is {lag} for partition {partition} at offset {worst.next_offset} among {len(verdicts)} partitions"
        )

    async def _fetch(self, broker: int, partitions: list[TopicPartition]) -> dict[TopicPartition, Fetched]:
        """A replica that cannot be read holds its partitions up; that is told once."""
        try:
            if broker not in self._cluster.view.brokers:
                await self._cluster.refresh()
            node = self._cluster.node(broker)
            await node.connect()
            request = self._request(partitions, node.version_of(ApiKey.FETCH))
            response: FetchResponse = await node.call(request, timeout_ms=self._task.max_wait_ms + SLACK_MS)
        except (Disconnected, TimedOut) as error:
            self._complain(f"broker {broker}", f"broker {broker} cannot be asked, and its partitions wait: {error}")
            return {}
        self._complaints.discard(f"broker {broker}")
        return self._read(broker, response)

    def _read(self, broker: int, response: FetchResponse) -> dict[TopicPartition, Fetched]:
        names = {topic_id: name for name, topic_id in self._task.topic_ids.items()}
        found = {}
        for topic in response.responses:
            for one in topic.partitions:
                partition = TopicPartition(topic.topic or names[topic.topic_id], one.partition_index)
                if one.error_code != ErrorCode.NONE:
                    where = f"{partition} on broker {broker} at offset {self._offsets[partition]}"
                    self._complain(where, str(error_for(one.error_code, context=where)))
                    continue
                assert not isinstance(one.records, FileRange)
                # Copied, since the answer lies in a buffer that the next one is read into.
                found[partition] = Fetched(one.high_watermark, bytes(one.records or b""))
        return found

    def _request(self, partitions: list[TopicPartition], version: int) -> FetchRequest:
        topics: dict[str, list[FetchPartition]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(
                FetchPartition(
                    partition=partition.partition,
                    fetch_offset=self._offsets[partition],
                    partition_max_bytes=self._task.fetch_size,
                )
            )
        has_state = version >= STATE_SINCE
        return FetchRequest(
            replica_id=-1 if has_state else DEBUGGER,
            replica_state=ReplicaState(replica_id=DEBUGGER) if has_state else None,
            max_wait_ms=self._task.max_wait_ms,
            min_bytes=MIN_BYTES,
            topics=[
                FetchTopic(topic=topic, topic_id=self._task.topic_ids[topic], partitions=wanted)
                for topic, wanted in topics.items()
            ],
        )

    def _complain(self, what: str, text: str) -> None:
        """Once, until it has worked in between."""
        if what not in self._complaints:
            self._complaints.add(what)
            self._shown.close()
            warn(f"warning: {text}")

    def _print(self, text: str, style: str | None = None) -> None:
        # The bar stands on the line that this one needs.
        self._shown.close()
        moment = datetime.now().strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
        print(f"{moment}: {text if style is None else paint(text, style)}", flush=True)
