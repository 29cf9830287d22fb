"""Settings as tests write them: Kafka's dotted names in a mapping, or keywords with underscores."""

from collections.abc import Mapping
from typing import Final

DEFAULTS: Final = {
    # A group of one test need not wait for members that may still come.
    "group.initial.rebalance.delay.ms": "0",
    # The first group and the first transaction are quick: there is one partition to make.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    # There is one broker.
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # A segment's index files are made at their full size.
    "log.index.size.max.bytes": "65536",
}
"""What a broker for tests has where Kafka's own defaults are for production."""


def dotted(settings: Mapping[str, object] | None, keywords: Mapping[str, object]) -> dict[str, str]:
    """Both kinds as Kafka writes them; keywords win.

    >>> dotted({"num.partitions": 3}, {"auto_create_topics_enable": False})
    {'num.partitions': '3', 'auto.create.topics.enable': 'false'}
    """
    named = {name.replace("_", "."): value for name, value in keywords.items()}
    return {name: _text(value) for name, value in {**(settings or {}), **named}.items()}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value)
