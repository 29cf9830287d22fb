"""A process that copies records exactly once: `python -m tests.chaos.copier CLIENT BOOTSTRAP SOURCE TARGET ...`.

It consumes, produces to the partition of the same number, and commits its offsets in the same transaction. It runs
until it is killed; whatever fails, it begins anew with the same transactional id. Who is stuck ends itself.
"""

import asyncio
import faulthandler
import logging
import sys
import time
from collections.abc import Iterable
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AiokafkaPartition
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError as KafkaPythonError

from tests.producers import PRODUCERS, Fenced, TransactionFailed

SESSION_TIMEOUT_MS = 2_000
HEARTBEAT_INTERVAL_MS = 200
TRANSACTION_TIMEOUT_MS = 10_000
POLL_SECONDS = 0.1
STUCK_SECONDS = 10
"""Two clients may wait for ever when the broker goes away under them: librdkafka in send_offsets_to_transaction (its
issue 5456), and kafka-python, which forgets a request to the coordinator if it cannot connect just then."""

Found = dict[int, list[tuple[int, bytes]]]
"""Offsets and values, by partition."""

FAILURES = (Fenced, TransactionFailed, KafkaException, KafkaPythonError, AiokafkaError)


class Source(Protocol):
    group: Any
    """What the transaction is told of the consumer that reads."""

    def poll(self, size: int) -> Found: ...

    def close(self) -> None: ...


class ConfluentSource:
    """A member of a group; one that is no member any more is refused by the generation it says (KIP-447)."""

    def __init__(self, bootstrap: str, topic: str, group: str, _partitions: Iterable[int]) -> None:
        self.group: Any = None
        self._found: Found = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._on_change, on_revoke=self._on_change)

    def poll(self, size: int) -> Found:
        self._found = {}
        for _ in range(size):
            message = self._consumer.poll(0.0 if self._found else POLL_SECONDS)
            if message is None:
                break
            if message.error() is None:
                one = message.offset(), message.value()
                self._found.setdefault(message.partition(), []).append(one)  # type: ignore[arg-type]
        return self._found

    def close(self) -> None:
        self._consumer.close()

    def _on_change(self, *_: Any) -> None:
        """Kept from here: later the client may have lost its place, and would say that it has none."""
        self._found.clear()
        self.group = self._consumer.consumer_group_metadata()


class KafkaPythonSource(ConsumerRebalanceListener):  # type: ignore[misc]
    """As the other."""

    def __init__(self, bootstrap: str, topic: str, group: str, _partitions: Iterable[int]) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self.group: Any = None
        self._consumer: Any = KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            reconnect_backoff_max_ms=200,
        )
        self._consumer.subscribe([topic], listener=self)

    def poll(self, size: int) -> Found:
        batches = self._consumer.poll(timeout_ms=int(POLL_SECONDS * 1_000), max_records=size)
        return {where.partition: [(one.offset, one.value) for one in batch] for where, batch in batches.items()}

    def close(self) -> None:
        self._consumer.close(autocommit=False)

    def on_partitions_revoked(self, revoked: Any) -> None:
        pass

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.group = self._consumer.group_metadata()


class AiokafkaSource:
    """Has partitions of its own: its client cannot say in a transaction which member of a group it is.

    The transactional id goes with the partitions, so a predecessor is fenced before the offsets are read.
    """

    def __init__(self, bootstrap: str, topic: str, group: str, partitions: Iterable[int]) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self.group: Any = group
        self._loop = asyncio.new_event_loop()
        self._consumer: Any = None
        self._loop.run_until_complete(self._start(bootstrap, topic, group, partitions))

    def poll(self, size: int) -> Found:
        wanted = self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1_000), max_records=size)
        batches = self._loop.run_until_complete(wanted)
        return {where.partition: [(one.offset, one.value) for one in batch] for where, batch in batches.items()}

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.close()

    async def _start(self, bootstrap: str, topic: str, group: str, partitions: Iterable[int]) -> None:
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, group_id=group, isolation_level="read_committed", enable_auto_commit=False
        )
        try:
            await self._consumer.start()
            own = [AiokafkaPartition(topic, index) for index in partitions]
            self._consumer.assign(own)
            for where in own:
                self._consumer.seek(where, await self._consumer.committed(where) or 0)
        except BaseException:
            await self._consumer.stop()
            raise


SOURCES: dict[str, Any] = {
    "confluent-kafka": ConfluentSource,
    "kafka-python": KafkaPythonSource,
    "aiokafka": AiokafkaSource,
}


def copy(client: str, bootstrap: str, source: str, target: str, number: int, of: int, size: int) -> None:
    """Until something fails. The producer comes first: the transaction of a predecessor has ended then."""
    producer = PRODUCERS[client](bootstrap, f"{target}-{number}", TRANSACTION_TIMEOUT_MS)
    try:
        reader: Source = SOURCES[client](bootstrap, source, target, range(number, PARTITIONS, of))
        try:
            while True:
                found = reader.poll(size)
                if not found:
                    continue
                faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True)
                producer.begin()
                for index, records in found.items():
                    producer.send(target, index, *(value for _, value in records))
                offsets = {(source, index): records[-1][0] + 1 for index, records in found.items()}
                producer.send_offsets(offsets, reader.group)
                producer.commit()
                faulthandler.cancel_dump_traceback_later()
        finally:
            reader.close()
    finally:
        producer.close()


PARTITIONS = 4


def main(client: str, bootstrap: str, source: str, target: str, *numbers: str) -> None:
    number, of, size = map(int, numbers)
    while True:
        try:
            copy(client, bootstrap, source, target, number, of, size)
        except FAILURES as error:
            faulthandler.cancel_dump_traceback_later()
            print(repr(error), file=sys.stderr, flush=True)
            # Mostly the broker is away, and knocking at its door all the time would keep it from coming back.
            time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
