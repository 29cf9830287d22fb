"""Three real clients as members of a group, behind one face: for tests that treat them alike."""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor as AiokafkaRange
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaException
from kafka import KafkaConsumer
from kafka.coordinator.assignors.range import RangePartitionAssignor as KafkaPythonRange
from kafka.errors import KafkaError as KafkaPythonError

HEARTBEAT_INTERVAL_MS = 200
RECORDS_AT_ONCE = 500
SECOND_MS = 1_000


class CommitRefused(Exception):
    """A commit did not take effect, or the client cannot know whether it did."""


NO_BROKER = (AiokafkaError, KafkaPythonError)
"""What the clients raise that look for a broker when they are made, and find none."""


class Member(Protocol):
    """Reads from the earliest record on, commits when it is told to, and shares partitions by range."""

    def __init__(self, bootstrap: str, topic: str, group: str, session_timeout_ms: int = 45_000) -> None: ...

    def poll(self, seconds: float) -> list[bytes]:
        """Values that have come; take part in the group meanwhile."""
        ...

    def commit(self) -> None:
        """Commit all that was polled, and wait for the answer."""
        ...

    def partitions(self) -> set[int]: ...

    def close(self) -> None:
        """Leave the group."""
        ...


class ConfluentMember:
    def __init__(self, bootstrap: str, topic: str, group: str, session_timeout_ms: int = 45_000) -> None:
        self._has_polled = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": session_timeout_ms,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._consumer.subscribe([topic])

    def poll(self, seconds: float) -> list[bytes]:
        first = self._consumer.poll(seconds)
        messages = [] if first is None else [first, *self._consumer.consume(RECORDS_AT_ONCE, 0)]
        values = [message.value() or b"" for message in messages if message.error() is None]
        self._has_polled |= bool(values)
        return values

    def commit(self) -> None:
        if not self._has_polled:
            # librdkafka takes a commit of nothing for an error.
            return
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as error:
            raise CommitRefused(str(error)) from error

    def partitions(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonMember:
    def __init__(self, bootstrap: str, topic: str, group: str, session_timeout_ms: int = 45_000) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self._consumer = KafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=[KafkaPythonRange],
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            reconnect_backoff_max_ms=200,
        )

    def poll(self, seconds: float) -> list[bytes]:
        try:
            batches = self._consumer.poll(timeout_ms=int(seconds * SECOND_MS), max_records=RECORDS_AT_ONCE)
        except KafkaPythonError as error:
            # It raises when a broker is away just as it looks for one, and goes on when it is asked again.
            if not error.retriable:
                raise
            return []
        return [record.value for batch in batches.values() for record in batch]

    def commit(self) -> None:
        try:
            self._consumer.commit()
        except KafkaPythonError as error:
            raise CommitRefused(repr(error)) from error

    def partitions(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        self._consumer.close()


class AiokafkaMember:
    """On a loop of its own thread: it must take part in a rebalance while another member is being started."""

    def __init__(self, bootstrap: str, topic: str, group: str, session_timeout_ms: int = 45_000) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._consumer: Any = None
        try:
            self._run(self._start(bootstrap, topic, group, session_timeout_ms))
        except BaseException:
            self.close()
            raise

    def poll(self, seconds: float) -> list[bytes]:
        wanted = self._consumer.getmany(timeout_ms=int(seconds * SECOND_MS), max_records=RECORDS_AT_ONCE)
        return [record.value for batch in self._run(wanted).values() for record in batch]

    def commit(self) -> None:
        try:
            self._run(self._consumer.commit())
        except AiokafkaError as error:
            raise CommitRefused(repr(error)) from error

    def partitions(self) -> set[int]:
        return {one.partition for one in self._consumer.assignment()}

    def close(self) -> None:
        try:
            self._run(self._consumer.stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    async def _start(self, bootstrap: str, topic: str, group: str, session_timeout_ms: int) -> None:
        self._consumer = AIOKafkaConsumer(
            topic,
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            partition_assignment_strategy=(AiokafkaRange,),
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
        )
        await self._consumer.start()

    def _run(self, wanted: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(wanted, self._loop).result()


MEMBERS: dict[str, type[Member]] = {
    "confluent-kafka": ConfluentMember,
    "kafka-python": KafkaPythonMember,
    "aiokafka": AiokafkaMember,
}
