"""Settings as tests write them: Kafka's dotted names in a mapping, or keywords with underscores."""

from collections.abc import Mapping


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
