"""Turns the keys and values of fetched records into what the user's deserializers make of them."""

from levada.client.consumer.fetched import Transform
from levada.client.errors import SerializationFailed
from levada.client.serializers import Deserializer, deserialize
from levada.records import ConsumerRecord


def transform_for(key: Deserializer | None, value: Deserializer | None) -> Transform | None:
    """None where bytes stay bytes, so that nothing is done for each record."""
    if key is None and value is None:
        return None

    def transform(records: list[ConsumerRecord]) -> tuple[list[ConsumerRecord], SerializationFailed | None]:
        done: list[ConsumerRecord] = []
        try:
            for record in records:
                done.append(_deserialized(record, key, value))  # noqa: PERF401 (what is done counts when one fails)
        except SerializationFailed as failure:
            return done, failure
        return done, None

    return transform


def _deserialized(record: ConsumerRecord, key: Deserializer | None, value: Deserializer | None) -> ConsumerRecord:
    topic, partition, offset, timestamp_ms, timestamp_type, raw_key, raw_value, headers, epoch = record
    return ConsumerRecord(
        topic,
        partition,
        offset,
        timestamp_ms,
        timestamp_type,
        deserialize(key, raw_key, topic, partition, offset, "key"),
        deserialize(value, raw_value, topic, partition, offset),
        headers,
        epoch,
    )
