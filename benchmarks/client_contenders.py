"""The clients under measurement, ours and others', each doing the same job with the same settings."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka import Producer as ConfluentProducer
from confluent_kafka import TopicPartition as ConfluentPartition

from levada import Consumer, Producer, aio
from levada.client.types import TopicPartition

LINGER_MS = 5
BATCH_BYTES = 1_000_000
"""librdkafka's default; ours is Kafka's."""
MAX_POLL = 500
PARTITION_FETCH_BYTES = 1 << 20
FETCH_BYTES = 50 << 20
BUFFER_BYTES = 64 << 20
WAIT_SECONDS = 60
AIOKAFKA_SHARE = 8
"""aiokafka takes so much longer that an eighth of the records will do."""


@dataclass(frozen=True, slots=True)
class Settings:
    bootstrap: str
    topic: str
    partitions: int
    value: bytes
    count: int
    """Records a round."""

    @property
    def read_topic(self) -> str:
        return f"{self.topic}-in"


class Contender(Protocol):
    def timed_round(self) -> tuple[float, float]:
        """Records per second, and microseconds of CPU per record."""

    def close(self) -> None: ...


class Rounds:
    """The same job again and again."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.count = settings.count
        """Records a round."""

    def timed_round(self) -> tuple[float, float]:
        begun, used = time.perf_counter(), time.process_time()
        self.run()
        seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - used
        return self.count / seconds, cpu_seconds / self.count * 1e6

    def run(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


# Writing


class Send(Rounds):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.producer = Producer(
            settings.bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, buffer_memory=BUFFER_BYTES
        )

    def run(self) -> None:
        send, topic, value = self.producer.send, self.settings.topic, self.settings.value
        for _ in range(self.settings.count):
            send(topic, value)
        self.producer.flush()

    def close(self) -> None:
        self.producer.close()


class SendMany(Send):
    def run(self) -> None:
        self.producer.send_many(self.settings.topic, [self.settings.value] * self.settings.count)
        self.producer.flush()


class SendArrow(Send):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        values = pa.array([settings.value] * settings.count, pa.binary())
        self._batch = pa.RecordBatch.from_arrays([values], ["value"])

    def run(self) -> None:
        self.producer.send_arrow(self.settings.topic, self._batch)
        self.producer.flush()


class ConfluentProduce(Rounds):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._producer = ConfluentProducer(
            {
                "bootstrap.servers": settings.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": LINGER_MS,
                "batch.size": BATCH_BYTES,
                "queue.buffering.max.kbytes": BUFFER_BYTES // 1_024,
                "queue.buffering.max.messages": 10_000_000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        produce, topic, value = self._producer.produce, self.settings.topic, self.settings.value
        left = self.settings.count
        while left:
            try:
                for _ in range(left):
                    produce(topic, value)
                    left -= 1
            except BufferError:
                self._producer.poll(0.01)
        assert self._producer.flush(WAIT_SECONDS) == 0


class _Looped(Rounds):
    """A client of asyncio's, on a loop that is kept between rounds."""

    share = 1
    """One so many-th of the records make a round."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.count = settings.count // self.share
        self.runner = asyncio.Runner()
        self.runner.run(self.start())

    def run(self) -> None:
        self.runner.run(self.work())

    async def start(self) -> None:
        raise NotImplementedError

    async def work(self) -> None:
        raise NotImplementedError

    async def stop(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.runner.run(self.stop())
        self.runner.close()


class AioSend(_Looped):
    async def start(self) -> None:
        self._producer = aio.Producer(
            self.settings.bootstrap, linger_ms=LINGER_MS, batch_size=BATCH_BYTES, buffer_memory=BUFFER_BYTES
        )

    async def work(self) -> None:
        send, topic, value = self._producer.send, self.settings.topic, self.settings.value
        for _ in range(self.count):
            await send(topic, value)
        await self._producer.flush()

    async def stop(self) -> None:
        await self._producer.close()


class AiokafkaSend(_Looped):
    share = AIOKAFKA_SHARE

    async def start(self) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self.settings.bootstrap,
            linger_ms=LINGER_MS,
            max_batch_size=BATCH_BYTES,
            acks="all",
            enable_idempotence=True,
        )
        await self._producer.start()

    async def work(self) -> None:
        send, topic, value = self._producer.send, self.settings.topic, self.settings.value
        for _ in range(self.count):
            await send(topic, value)
        await self._producer.flush()

    async def stop(self) -> None:
        await self._producer.stop()


# Reading


def fill(settings: Settings) -> None:
    """More records to read than a round takes, evenly spread; once for all who read.

    A consumer at the end of a log waits there for more, and is in the middle of that when the next round begins.
    """
    with Producer(settings.bootstrap, batch_size=BATCH_BYTES, buffer_memory=BUFFER_BYTES) as producer:
        each = 2 * settings.count // settings.partitions
        for partition in range(settings.partitions):
            if producer.partitions_for(settings.read_topic) and _is_empty(settings, partition):
                producer.send_many(settings.read_topic, [settings.value] * each, partition=partition)
        producer.flush()


def _is_empty(settings: Settings, partition: int) -> bool:
    place = TopicPartition(settings.read_topic, partition)
    with Consumer(settings.bootstrap) as consumer:
        return consumer.end_offsets([place])[place] == 0


class Reading(Rounds):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        fill(settings)

    @property
    def wanted(self) -> int:
        return self.settings.count // self.settings.partitions * self.settings.partitions


class Poll(Reading):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._places = [TopicPartition(settings.read_topic, index) for index in range(settings.partitions)]
        self.consumer = Consumer(
            settings.bootstrap,
            auto_offset_reset="earliest",
            max_poll_records=MAX_POLL,
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        )

    def run(self) -> None:
        self.consumer.assign(self._places)
        self.consumer.seek_to_beginning()
        self.read()
        self.consumer.unsubscribe()

    def read(self) -> None:
        left = self.wanted
        while left > 0:
            left -= len(self.consumer.poll(1.0))

    def close(self) -> None:
        self.consumer.close()


class PollArrow(Poll):
    def read(self) -> None:
        left = self.wanted
        while left > 0:
            batch = self.consumer.poll_arrow(1.0)
            left -= 0 if batch is None else batch.num_rows


class ConfluentConsume(Reading):
    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._consumer = ConfluentConsumer(
            {
                "bootstrap.servers": settings.bootstrap,
                "group.id": "bench",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.max.bytes": FETCH_BYTES,
                "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
                # Its own defaults would have it pause for a second whenever it is far enough ahead.
                "queued.min.messages": 1_000_000,
                "queued.max.messages.kbytes": 1_000_000,
                "log_level": 0,
            }
        )

    def run(self) -> None:
        indexes = range(self.settings.partitions)
        self._consumer.assign([ConfluentPartition(self.settings.read_topic, index, 0) for index in indexes])
        left = self.wanted
        while left > 0:
            # It waits for as many as it may give.
            left -= len(self._consumer.consume(min(MAX_POLL, left), 1.0))
        self._consumer.unassign()

    def close(self) -> None:
        self._consumer.close()


class AioPoll(_Looped):
    async def start(self) -> None:
        fill(self.settings)
        self._consumer = aio.Consumer(
            self.settings.bootstrap,
            auto_offset_reset="earliest",
            max_poll_records=MAX_POLL,
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        )

    async def work(self) -> None:
        settings = self.settings
        self._consumer.assign([TopicPartition(settings.read_topic, index) for index in range(settings.partitions)])
        self._consumer.seek_to_beginning()
        left = self.count
        while left > 0:
            left -= len(await self._consumer.poll(1.0))
        await self._consumer.unsubscribe()

    async def stop(self) -> None:
        await self._consumer.close()


class AiokafkaGetmany(_Looped):
    share = AIOKAFKA_SHARE

    async def start(self) -> None:
        fill(self.settings)
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self.settings.bootstrap,
            auto_offset_reset="earliest",
            fetch_max_bytes=FETCH_BYTES,
            max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        )
        await self._consumer.start()

    async def work(self) -> None:
        settings = self.settings
        places = [AioPartition(settings.read_topic, index) for index in range(settings.partitions)]
        self._consumer.assign(places)
        await self._consumer.seek_to_beginning(*places)
        left = self.count
        while left > 0:
            found: dict[Any, list[Any]] = await self._consumer.getmany(timeout_ms=1_000, max_records=MAX_POLL)
            left -= sum(map(len, found.values()))
        self._consumer.unsubscribe()

    async def stop(self) -> None:
        await self._consumer.stop()


CONTENDERS: dict[str, Callable[[Settings], Contender]] = {
    "send": Send,
    "send_many": SendMany,
    "send_arrow": SendArrow,
    "confluent produce": ConfluentProduce,
    "poll": Poll,
    "poll_arrow": PollArrow,
    "confluent consume": ConfluentConsume,
    "aio send": AioSend,
    "aiokafka send": AiokafkaSend,
    "aio poll": AioPoll,
    "aiokafka getmany": AiokafkaGetmany,
}
