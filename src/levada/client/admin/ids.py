"""Ids of 16 bytes, and the grouping of partitions by their topics."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from levada.client.types import TopicPartition
from levada.model.hashes import uuid_from_text, uuid_to_text

V = TypeVar("V")


class TopicId(bytes):
    """A topic's id, which no topic of the same name created later has.

    >>> TopicId.parse("AAAAAAAAAAAAAAAAAAAAAQ")
    TopicId('AAAAAAAAAAAAAAAAAAAAAQ')
    """

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> "TopicId":
        """From the 22 characters that Kafka's tools print."""
        return cls(uuid_from_text(text))

    def __str__(self) -> str:
        return uuid_to_text(self)

    def __repr__(self) -> str:
        return f"TopicId({str(self)!r})"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partitions as most requests want them."""
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def values_by_topic(values: Mapping[TopicPartition, V]) -> dict[str, dict[int, V]]:
    topics: dict[str, dict[int, V]] = {}
    for (topic, partition), value in values.items():
        topics.setdefault(topic, {})[partition] = value
    return topics
