"""Sends what the accumulator has ready: to each leader, in order, again until it is acknowledged or too late."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from levada.client.cluster import NO_NODE, Cluster, Node, background
from levada.client.errors import KafkaError, TimedOut
from levada.client.options import Options
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.batch import NO_OFFSET, Batch
from levada.client.producer.outcome import BatchOutcomes
from levada.client.producer.partition_queue import PartitionQueue
from levada.client.producer.session import Session
from levada.net.channel import ChannelClosed
from levada.protocol.api import ApiKey
from levada.protocol.declare import NO_UUID
from levada.protocol.errors import CodecError
from levada.protocol.messages.produce import (
    IMPLICIT_ADD_SINCE,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from levada.records import Codec

logger = logging.getLogger("levada.client")


@dataclass(slots=True)
class _Destination:
    """What is under way to one broker."""

    in_flight: int = 0
    connecting: "asyncio.Task[None] | None" = None


class Sender:
    """Runs on the client's loop. `pump` does all there is to do and never waits; answers and timers call it again."""

    def __init__(
        self,
        cluster: Cluster,
        options: Options,
        accumulator: Accumulator,
        session: Session,
        outcomes: BatchOutcomes,
    ) -> None:
        self._cluster = cluster
        self._accumulator = accumulator
        self._session = session
        self._identity = session.identity
        self._outcomes = outcomes
        self._clock = cluster.world.clock
        self._acks: int = options["acks"]
        self._codec = Codec[options["compression.type"].upper()]
        self._level = compression_level(options)
        self._request_timeout_ms: int = options["request.timeout.ms"]
        self._delivery_timeout_ms: int = options["delivery.timeout.ms"]
        self._max_in_flight: int = options["max.in.flight.requests.per.connection"]
        # One request at a time to each broker keeps the order, unless a partition's next batch goes to another broker.
        self._mutes_queues = self._max_in_flight == 1 and self._acks != 0
        self._max_request_size: int = options["max.request.size"]
        self._destinations: dict[int, _Destination] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at_ms = 0.0
        self._expiry_at_ms = 0.0
        self._is_closed = False

    def pump(self) -> None:
        """Expire, close and send whatever is due now."""
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        self._expire(now_ms)
        wake_at_ms = self._accumulator.close_due(now_ms)
        self._send_ready(now_ms)
        self._set_timer(now_ms, wake_at_ms)

    @property
    def in_flight(self) -> int:
        return sum(destination.in_flight for destination in self._destinations.values())

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for destination in self._destinations.values():
            if destination.connecting is not None:
                destination.connecting.cancel()

    # What goes where

    def _send_ready(self, now_ms: float) -> None:
        # After a round a queue may have more, and the broker may take it.
        while self._send_round(now_ms):
            pass

    def _send_round(self, now_ms: float) -> bool:
        """One request to each broker that takes one; whether there was any."""
        requests: dict[int, list[tuple[PartitionQueue, Batch]]] = {}
        sizes: dict[int, int] = {}
        for queue in self._accumulator.ready_queues():
            batch = self._next_of(queue, now_ms)
            if batch is None:
                continue
            leader = self._cluster.view.leader(queue.topic, queue.partition)
            if leader == NO_NODE:
                self._cluster.want((queue.topic,))
                self._cluster.refresh_soon()
                continue
            size = sizes.get(leader, 0) + batch.writer.size
            if leader in requests:
                if size > self._max_request_size:
                    continue
            elif not self._is_open(leader):
                continue
            sizes[leader] = size
            requests.setdefault(leader, []).append((queue, batch))
        for leader, parts in requests.items():
            # One that fails at once takes all of its transaction with it that is not on the wire.
            if left := [(queue, batch) for queue, batch in parts if not batch.is_done]:
                self._send(leader, left)
        return bool(requests)

    def _next_of(self, queue: PartitionQueue, now_ms: float) -> Batch | None:
        if (
            queue.is_muted
            or not self._session.lets_through(queue)
            or (self._identity is not None and not self._settle(queue))
        ):
            return None
        batch = queue.next_batch(now_ms)
        if batch is None:
            self._accumulator.retire(queue)
        return batch

    def _settle(self, queue: PartitionQueue) -> bool:
        """Bring a queue's numbering to terms with what the broker has; False while that has to wait."""
        identity = self._identity
        assert identity is not None
        if queue.needs_new_epoch:
            if queue.is_on_wire:
                return False
            if self._is_current(queue):
                identity.bump()
            if not identity.is_known:
                return False
            queue.adopt(identity.producer_id, identity.producer_epoch)
        elif not queue.unresolved:
            if queue.in_doubt and (queue.last_acknowledged + 1) % (1 << 31) != queue.next_sequence:
                if self._is_current(queue):
                    identity.bump()
                if not identity.is_known:
                    return False
            queue.in_doubt = False
            if not self._is_current(queue):
                queue.adopt(identity.producer_id, identity.producer_epoch)
        return True

    def _is_current(self, queue: PartitionQueue) -> bool:
        assert self._identity is not None
        mine = (queue.producer_id, queue.producer_epoch)
        return mine == (self._identity.producer_id, self._identity.producer_epoch)

    def _is_open(self, leader: int) -> bool:
        """Whether a request can go to this broker now; begins to connect where that is what it takes."""
        destination = self._destinations.setdefault(leader, _Destination())
        if destination.in_flight >= self._max_in_flight or destination.connecting is not None:
            return False
        try:
            node = self._cluster.node(leader)
        except KafkaError:
            self._cluster.refresh_soon()
            return False
        if node.is_connected and not node.is_throttled:
            # Without acknowledgements nothing else says that the broker cannot keep up.
            return self._acks != 0 or node.is_drained(self.pump)
        task = background(self._connect(node, destination))
        destination.connecting = task
        return False

    async def _connect(self, node: Node, destination: _Destination) -> None:
        try:
            await node.connect()
        except KafkaError as error:
            logger.debug("%s", error)
            self._cluster.refresh_soon()
            await asyncio.sleep(self._cluster.backoff.pause_ms(1) / 1_000)
        finally:
            destination.connecting = None
        self.pump()

    # One request

    def _send(self, leader: int, parts: Sequence[tuple[PartitionQueue, Batch]]) -> None:
        node = self._cluster.node(leader)
        at_most = None if self._session.adds_implicitly else IMPLICIT_ADD_SINCE - 1
        try:
            version = node.version_of(ApiKey.PRODUCE, at_most=at_most)
            for queue, batch in parts:
                self._prepare(queue, batch)
            request = self._request(parts)
            if self._acks == 0:
                node.post_without_answer(request, version)
                for queue, batch in parts:
                    self._outcomes.acknowledged(queue, batch, NO_OFFSET, -1)
                return
            future = node.post(request, version, self._request_timeout_ms)
        except KafkaError as error:
            for queue, batch in parts:
                queue.is_muted = False
                self._outcomes.failed(queue, batch, error)
            return
        destination = self._destinations[leader]
        destination.in_flight += 1
        future.add_done_callback(partial(self._answered, node, destination, parts))

    def _prepare(self, queue: PartitionQueue, batch: Batch) -> None:
        if queue.waiting and queue.waiting[0] is batch:
            self._accumulator.take(queue)
            if self._identity is not None:
                queue.number(batch)
        batch.attempts += 1
        batch.is_on_wire = True
        queue.is_muted = self._mutes_queues

    def _request(self, parts: Iterable[tuple[PartitionQueue, Batch]]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for queue, batch in parts:
            data = topics.get(queue.topic)
            if data is None:
                known = self._cluster.view.topics.get(queue.topic)
                topic_id = known.topic_id if known is not None else NO_UUID
                data = topics[queue.topic] = TopicProduceData(name=queue.topic, topic_id=topic_id, partition_data=[])
            sealed = batch.writer.seal(
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                is_transactional=self._session.transactional_id is not None,
                codec=self._codec,
                level=self._level,
            )
            data.partition_data.append(PartitionProduceData(index=queue.partition, records=sealed))
        return ProduceRequest(
            transactional_id=self._session.transactional_id,
            acks=self._acks,
            timeout_ms=self._request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _answered(
        self,
        node: Node,
        destination: _Destination,
        parts: Sequence[tuple[PartitionQueue, Batch]],
        future: "asyncio.Future[ProduceResponse]",
    ) -> None:
        destination.in_flight -= 1
        failure: KafkaError | None = None
        answers: Mapping[tuple[object, int], PartitionProduceResponse] = {}
        try:
            answers = _by_partition(future.result())
        except (ChannelClosed, CodecError) as error:
            failure = node.lost(error)
        except KafkaError as error:
            failure = error
        except asyncio.CancelledError:
            failure = TimedOut("the producer was stopped before the answer came")
        for queue, batch in parts:
            batch.is_on_wire = queue.is_muted = False
            if failure is not None:
                self._cluster.refresh_soon()
                self._outcomes.failed(queue, batch, failure)
                continue
            known = self._cluster.view.topics.get(queue.topic)
            answer = answers.get((queue.topic, queue.partition)) or (
                answers.get((known.topic_id, queue.partition)) if known is not None else None
            )
            self._outcomes.answered(queue, batch, answer)
        self.pump()

    # Time

    def _expire(self, now_ms: float) -> None:
        """Give up what could not be delivered in time; its handles fail now, whether it is on the wire or not."""
        if now_ms < self._expiry_at_ms:
            return
        expired, oldest_ms = self._accumulator.expired(now_ms - self._delivery_timeout_ms)
        self._expiry_at_ms = (now_ms if oldest_ms is None else oldest_ms) + self._delivery_timeout_ms
        for batch in expired:
            self._outcomes.expired(batch, self._delivery_timeout_ms)

    def _set_timer(self, now_ms: float, linger_at_ms: float | None) -> None:
        if not self._accumulator.incomplete:
            return
        at_ms = self._expiry_at_ms if linger_at_ms is None else min(linger_at_ms, self._expiry_at_ms)
        for queue in self._accumulator.ready_queues():
            first = queue.unresolved[0] if queue.unresolved else queue.waiting[0] if queue.waiting else None
            if first is not None and first.retry_at_ms > now_ms:
                at_ms = min(at_ms, first.retry_at_ms)
        if self._timer is not None:
            if self._timer_at_ms == at_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = at_ms
        delay_s = max(at_ms - now_ms, 0) / 1_000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.pump()


def compression_level(options: Options) -> int | None:
    """What the user asked for; None is the codec's own choice."""
    name = f"compression.{options['compression.type']}.level"
    level = options[name] if name in options.given else None
    return None if level == -1 else level


def _by_partition(response: ProduceResponse) -> dict[tuple[Any, int], PartitionProduceResponse]:
    """By topic name or id, whichever the version has, and partition."""
    return {
        (topic.name or topic.topic_id, answer.index): answer
        for topic in response.responses
        for answer in topic.partition_responses
    }
