"""Fields of JSON that users wrote: each as what it should be, or a line that says what it is instead."""

import json
from typing import Any, Final, TypeVar

from levada.cli.kit.refusals import Refused

T = TypeVar("T")

KINDS: Final[dict[type, str]] = {str: "a string", int: "a whole number", list: "a list", dict: "an object"}
LONGEST_SHOWN: Final = 60


def typed(value: Any, kind: type[T], where: str) -> T:
    """
    >>> typed(7, int, "version")
    7
    >>> typed(True, int, "version")
    Traceback (most recent call last):
        ...
    levada.cli.kit.refusals.Refused: version must be a whole number, not true
    """
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(f"{where} must be {KINDS[kind]}, not {_shown(value)}")
    return value


def field(document: Any, name: str, kind: type[T], where: str) -> T:
    """A field that has to be there; `where` says which object has it.

    >>> field({"topic": "orders"}, "partition", int, "partitions[0]")
    Traceback (most recent call last):
        ...
    levada.cli.kit.refusals.Refused: partitions[0] has no "partition"
    """
    if name not in typed(document, dict, where):
        raise Refused(f'{where} has no "{name}"')
    return typed(document[name], kind, f'{where}: "{name}"')


def items(document: Any, name: str, kind: type[T], where: str) -> list[T]:
    """A field that holds a list of one kind."""
    return [
        typed(value, kind, f'{where}: "{name}"[{index}]')
        for index, value in enumerate(field(document, name, list, where))
    ]


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
