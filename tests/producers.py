"""Three real clients as producers of transactions, behind one face: for tests that treat them alike."""

import asyncio
import logging
import threading
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from aiokafka.errors import ProducerFenced as AiokafkaFenced
from aiokafka.structs import TopicPartition as AiokafkaPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as LibrdkafkaProducer
from kafka import KafkaProducer, OffsetAndMetadata
from kafka import TopicPartition as KafkaPythonPartition
from kafka.errors import InvalidProducerEpochError, ProducerFencedError
from kafka.errors import KafkaError as KafkaPythonError

Offsets = Mapping[tuple[str, int], int]
"""By topic and partition: where a consumer goes on."""

TRANSACTION_TIMEOUT_MS = 60_000
CALL_SECONDS = 30.0


class Fenced(Exception):
    """Another instance has the id now, or the coordinator gave this one up."""


class TransactionFailed(Exception):
    """A client could not go on with a transaction, for whatever other reason."""


class Producer(Protocol):
    """Has its transactional id to itself once it is made."""

    def __init__(
        self, bootstrap: str, transactional_id: str, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        """Send records and wait until they are acknowledged."""
        ...

    def send_offsets(self, offsets: Offsets, group: Any) -> None:
        """`group` is what the client's own consumer says of itself, or the name of a group without members."""
        ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None:
        """An open transaction is left to others."""
        ...


class ConfluentProducer:
    def __init__(
        self, bootstrap: str, transactional_id: str, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None:
        self._bootstrap = bootstrap
        self._failures: list[KafkaError] = []
        self._producer = LibrdkafkaProducer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": transaction_timeout_ms,
                "message.timeout.ms": min(transaction_timeout_ms, int(CALL_SECONDS * 1_000)),
                "linger.ms": 1,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
                "error_cb": lambda _: None,
            }
        )
        self._call(self._producer.init_transactions, CALL_SECONDS)

    def begin(self) -> None:
        self._failures.clear()
        self._call(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        for value in values:
            self._call(self._producer.produce, topic, value, partition=partition, on_delivery=self._on_delivery)
        self._call(self._producer.flush, CALL_SECONDS)
        if self._failures:
            raise _confluent_error(self._failures[0])

    def send_offsets(self, offsets: Offsets, group: Any) -> None:
        positions = [TopicPartition(*where, offset) for where, offset in offsets.items()]
        if not isinstance(group, str):
            self._call(self._producer.send_offsets_to_transaction, positions, group, CALL_SECONDS)
            return
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
        try:
            metadata = consumer.consumer_group_metadata()
            self._call(self._producer.send_offsets_to_transaction, positions, metadata, CALL_SECONDS)
        finally:
            consumer.close()

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, CALL_SECONDS)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, CALL_SECONDS)

    def close(self) -> None:
        self._producer.purge()

    def _on_delivery(self, error: KafkaError | None, _message: Any) -> None:
        if error is not None:
            self._failures.append(error)

    def _call(self, wanted: Any, *arguments: Any, **options: Any) -> None:
        try:
            wanted(*arguments, **options)
        except SystemError as error:
            # A fatal error is raised while callbacks run: the interpreter finds it under the next one, or that
            # one has wiped it out and a failed delivery is all that tells of it.
            known = [error.__cause__.args[0]] if isinstance(error.__cause__, KafkaException) else self._failures
            if not known:
                raise
            raise _confluent_error(known[0]) from error
        except KafkaException as error:
            raise _confluent_error(error.args[0]) from error


def _confluent_error(error: KafkaError) -> Exception:
    fenced = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    return Fenced(str(error)) if error.code() in fenced else TransactionFailed(str(error))


class KafkaPythonProducer:
    def __init__(
        self, bootstrap: str, transactional_id: str, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self._producer: Any = _kafka_python_call(
            KafkaProducer,
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            max_block_ms=int(CALL_SECONDS * 1_000),
            reconnect_backoff_max_ms=200,
            linger_ms=1,
        )
        try:
            _kafka_python_call(self._producer.init_transactions)
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        _kafka_python_call(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        sent = [_kafka_python_call(self._producer.send, topic, value, partition=partition) for value in values]
        for future in sent:
            _kafka_python_call(future.get, CALL_SECONDS)

    def send_offsets(self, offsets: Offsets, group: Any) -> None:
        positions = {
            KafkaPythonPartition(*where): OffsetAndMetadata(offset, "", -1) for where, offset in offsets.items()
        }
        _kafka_python_call(self._producer.send_offsets_to_transaction, positions, group)

    def commit(self) -> None:
        _kafka_python_call(self._producer.commit_transaction)

    def abort(self) -> None:
        _kafka_python_call(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(timeout=0)


def _kafka_python_call(wanted: Any, *arguments: Any, **options: Any) -> Any:
    try:
        return wanted(*arguments, **options)
    except (ProducerFencedError, InvalidProducerEpochError) as error:
        raise Fenced(repr(error)) from error
    except KafkaPythonError as error:
        cause = error.__cause__ or error.__context__
        if isinstance(cause, ProducerFencedError | InvalidProducerEpochError):
            raise Fenced(repr(cause)) from error
        raise TransactionFailed(repr(error)) from error


class AiokafkaProducer:
    """On a loop of its own thread."""

    def __init__(
        self, bootstrap: str, transactional_id: str, transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    ) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._producer: Any = None
        try:
            self._run(self._start(bootstrap, transactional_id, transaction_timeout_ms))
        except BaseException:
            self.close()
            raise

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, *values: bytes) -> None:
        self._run(self._send(topic, partition, values))

    def send_offsets(self, offsets: Offsets, group: Any) -> None:
        positions = {AiokafkaPartition(*where): offset for where, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(positions, group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self, bootstrap: str, transactional_id: str, transaction_timeout_ms: int) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=transaction_timeout_ms,
            request_timeout_ms=int(CALL_SECONDS * 1_000),
        )
        await self._producer.start()

    async def _send(self, topic: str, partition: int, values: tuple[bytes, ...]) -> None:
        sent = [await self._producer.send(topic, value, partition=partition) for value in values]
        await asyncio.gather(*sent)

    async def _stop(self) -> None:
        """Its own stop waits for an open transaction's records, which a fenced producer never gets rid of."""
        if self._producer is None:
            return
        try:
            await asyncio.wait_for(self._producer.stop(), 1.0)
        except (AiokafkaError, TimeoutError):
            await self._producer.client.close()

    def _run(self, wanted: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(asyncio.wait_for(wanted, 2 * CALL_SECONDS), self._loop).result()
        except AiokafkaFenced as error:
            raise Fenced(repr(error)) from error
        except (AiokafkaError, TimeoutError) as error:
            raise TransactionFailed(repr(error)) from error


PRODUCERS: dict[str, type[Producer]] = {
    "confluent-kafka": ConfluentProducer,
    "kafka-python": KafkaPythonProducer,
    "aiokafka": AiokafkaProducer,
}
