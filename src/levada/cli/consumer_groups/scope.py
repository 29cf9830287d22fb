"""What --topic says: whole topics, and topics with some of their partitions."""

from collections.abc import Iterable
from typing import Final

from levada.cli.kit.refusals import WrongUsage
from levada.client.admin import TopicDescription
from levada.client.types import TopicPartition

MAX_PARTITION: Final = 2**31 - 1


def parse_scope(texts: Iterable[str]) -> tuple[list[TopicPartition], list[str]]:
    """The partitions that are named, and the topics of which all are meant.

    >>> parse_scope(["orders:0,2", "payments"])
    ([TopicPartition(topic='orders', partition=0), TopicPartition(topic='orders', partition=2)], ['payments'])
    """
    partitions: list[TopicPartition] = []
    topics: list[str] = []
    for text in texts:
        topic, separator, numbers = text.partition(":")
        if not separator:
            topics.append(text)
            continue
        try:
            partitions += [TopicPartition(topic, partition_number(number)) for number in numbers.split(",")]
        except ValueError:
            raise WrongUsage(f"--topic {text!r} is neither a topic nor TOPIC:PARTITION,...") from None
    return list(dict.fromkeys(partitions)), list(dict.fromkeys(topics))


def all_partitions(topic: TopicDescription) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition.index) for partition in topic.partitions]


def partition_number(text: str) -> int:
    """ValueError where no partition has such a number."""
    if not text.isascii() or not text.isdigit() or int(text) > MAX_PARTITION:
        raise ValueError(text)
    return int(text)
