"""The values of `message.timestamp.type`, however people remember their capitals."""

from typing import Final

TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


def as_kafka_writes(key: str, value: str) -> str:
    """The value of a setting; `logAppendTime` becomes Kafka's own spelling, which alone is taken on the wire.

    >>> as_kafka_writes("message.timestamp.type", "logAppendTime")
    'LogAppendTime'
    """
    if not key.endswith("message.timestamp.type"):
        return value
    return next((kind for kind in TIMESTAMP_TYPES if kind.lower() == value.strip().lower()), value)
