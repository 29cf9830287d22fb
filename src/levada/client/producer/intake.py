"""What a send gives, made into a record: serialized, given its queue and time, and put into a batch."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from levada.client.arguments import check_buffer, check_collection, check_kind, check_timestamp
from levada.client.errors import KafkaError
from levada.client.interceptors import Interceptors
from levada.client.options import Options
from levada.client.producer.accumulator import Accumulator
from levada.client.producer.batch import OnDelivery
from levada.client.producer.bulk import ListRows
from levada.client.producer.handle import Handle
from levada.client.producer.routes import Routes
from levada.client.serializers import advice, serialize
from levada.client.types import RecordMetadata
from levada.model.buffers import Buffer

HeadersInput: TypeAlias = Mapping[str, Buffer | None] | Sequence[tuple[str, Buffer | None]] | None


Prepared: TypeAlias = tuple[
    str, Buffer | None, Buffer | None, Sequence[tuple[str, Buffer | None]], int | None, int, OnDelivery | None
]
"""Topic, value, key, headers, partition, timestamp, callback."""


class ProducerRecord(NamedTuple):
    """What an interceptor sees before a record is serialized."""

    topic: str
    value: Any
    key: Any
    headers: Sequence[tuple[str, Buffer | None]]
    partition: int | None
    timestamp_ms: int


class Intake:
    """From any thread; never waits."""

    def __init__(
        self,
        options: Options,
        routes: Routes,
        accumulator: Accumulator,
        now_ms: Callable[[], int],
    ) -> None:
        self._routes = routes
        self._topics = routes.topics
        self._accumulator = accumulator
        self._now_ms = now_ms
        self._key_serializer = options["key.serializer"]
        self._value_serializer = options["value.serializer"]
        self._serializes = self._key_serializer is not None or self._value_serializer is not None
        self._interceptors = Interceptors(options["interceptor.classes"], dict(options.given))
        self._is_plain = not self._serializes and not self._interceptors
        self.is_plain = self._is_plain and routes.hashes_keys and not accumulator.counts_records
        """Whether records without a partition need nothing but a place in their batch."""

    def prepare(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: HeadersInput,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> Prepared:
        """A record as it is encoded: changed by the interceptors, serialized, with its time. Once for each record."""
        if timestamp_ms is None:
            timestamp_ms = self._now_ms()
        if on_delivery is not None:
            check_kind(on_delivery, OnDelivery, "send(): on_delivery")
        pairs = () if headers is None else _pairs(headers)
        if self._is_plain:
            return topic, value, key, pairs, partition, timestamp_ms, on_delivery
        record = self._interceptors.on_send(ProducerRecord(topic, value, key, pairs, partition, timestamp_ms))
        return (
            record.topic,
            serialize(self._value_serializer, record.value, record.topic),
            serialize(self._key_serializer, record.key, record.topic, "key"),
            record.headers,
            record.partition,
            record.timestamp_ms,
            self._telling(on_delivery) if self._interceptors else on_delivery,
        )

    def put(self, record: Prepared) -> Handle | None:
        """Put a record into a batch; None if its topic is not known yet, or there is no memory."""
        try:
            return self._put(record)
        except (TypeError, ValueError, OverflowError):
            # Only now, since most records are what they should be, and there are many.
            check_record(record)
            raise

    def _put(self, record: Prepared) -> Handle | None:
        topic, value, key, headers, partition, timestamp_ms, on_delivery = record
        routes = self._routes
        queues = self._topics.get(topic)
        if queues is None:
            return None
        if partition is not None:
            if not 0 <= partition < queues.count:
                return None
            queue = queues.partitions[partition]
        elif key is None and routes.is_sticky:
            queue = routes.sticky(queues)
            handle = self._accumulator.append_open(queue, timestamp_ms, None, value, headers, on_delivery)
            if handle is not None:
                return handle
            if self._accumulator.close_full(queue):
                queue = routes.is_full(queues, queue)
        else:
            queue = routes.queue(queues, key, value)
        return self._accumulator.append(queue, timestamp_ms, key, value, headers, on_delivery)

    def rows(self, values: Sequence[Any], keys: Sequence[Any] | None, timestamp_ms: int | None) -> ListRows:
        """Rows for a bulk send, serialized where a serializer is set."""
        check_collection(values, "send_many(): values")
        if keys is not None:
            check_collection(keys, "send_many(): keys")
        if timestamp_ms is not None:
            check_timestamp(timestamp_ms, "send_many(): timestamp_ms")
        if self._value_serializer is not None:
            values = [serialize(self._value_serializer, value, "") for value in values]
        if self._key_serializer is not None and keys is not None:
            keys = [serialize(self._key_serializer, key, "", "key") for key in keys]
        return ListRows(values, keys, self._now_ms() if timestamp_ms is None else timestamp_ms)

    def close(self) -> None:
        self._interceptors.close()

    def _telling(self, on_delivery: OnDelivery | None) -> OnDelivery:
        def tell(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            self._interceptors.on_acknowledgement(metadata, error)
            if on_delivery is not None:
                on_delivery(metadata, error)

        return tell


def check_record(record: Prepared) -> None:
    """Say what is wrong with a record that no batch takes; without a word if there is nothing."""
    topic, value, key, headers, partition, timestamp_ms, _ = record
    check_place(topic, partition, "send()")
    check_timestamp(timestamp_ms, "send(): timestamp_ms")
    if key is not None:
        check_buffer(key, "send(): key", advice(key, "key"))
    if value is not None:
        check_buffer(value, "send(): value", advice(value, "value"))
    check_kind(headers, Sequence[tuple[str, Any]], "send(): headers")
    for name, content in headers:
        if content is not None:
            check_buffer(content, f"send(): header {name!r}")


def check_place(topic: Any, partition: Any, call: str) -> None:
    check_kind(topic, str, f"{call}: topic")
    check_kind(partition, int | None, f"{call}: partition")


def _pairs(
    headers: Mapping[str, Buffer | None] | Sequence[tuple[str, Buffer | None]],
) -> Sequence[tuple[str, Buffer | None]]:
    if isinstance(headers, Mapping):
        return tuple(headers.items())
    try:
        return tuple(headers)
    except TypeError:
        check_kind(headers, HeadersInput, "send(): headers")
        raise
