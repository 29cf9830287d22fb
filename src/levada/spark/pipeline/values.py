"""The kinds of values that a pipeline's file can hold, each with what is said of a wrong one."""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

VARIABLE: Final = re.compile(r"\$\{(\w+)\}")
INTERVAL: Final = re.compile(r"interval\s.*|(?:\d+(?:\.\d+)?\s+[a-z]+\s+)+\d+(?:\.\d+)?\s+[a-z]+", re.IGNORECASE)
NAME: Final = re.compile(r"[\w.-]+", re.ASCII)

Value = Any
"""What YAML gives: text, numbers, truth values, lists and mappings."""

Kind = Callable[[Value], Value]
"""Gives the value as it is used; raises ValueError with what was wanted."""


def text(value: Value) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"must be text, not {_shown(value)}")
    if value == "":
        raise ValueError("must not be empty")
    return str(value)


def name(value: Value) -> str:
    """What files and groups can begin with."""
    given = text(value)
    if NAME.fullmatch(given) is None:
        raise ValueError(f"must be letters, digits, '.', '_' and '-', not {_shown(value)}")
    return given


def texts(value: Value) -> list[str]:
    """One, or a list of them."""
    given = value if isinstance(value, list) else [value]
    if not given:
        raise ValueError("must name at least one")
    return [text(one) for one in given]


def flag(value: Value) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {_shown(value)}")
    return value


def registry(value: Value) -> bool | str:
    """The file's own, or another one's address, which is not shown: a password may be in it."""
    if value is not True and (not isinstance(value, str) or value == ""):
        raise ValueError("must be true, or the address of a schema registry")
    return value


def positive(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"must be a whole number above 0, not {_shown(value)}")
    return value


def duration(value: Value) -> str:
    """Such as `10 minutes`, as Spark understands it."""
    return f"{round(seconds(value) * 1_000)} milliseconds"


def seconds(value: Value) -> float:
    """Such as `10 minutes`, as a number."""
    return _milliseconds(value, "it") / 1_000


def options(value: Value) -> dict[str, str]:
    """Names and values for Spark, which takes all of them as text."""
    if not isinstance(value, dict):
        raise ValueError(f"must be a mapping of names and values, not {_shown(value)}")
    return {text(name): _option(one) for name, one in value.items()}


def delays(value: Value) -> dict[str, str]:
    """Columns, each with a length of time, as Spark understands it; a watermark's may be none at all."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"must be a mapping of a column and a time, not {_shown(value)}")
    return {text(column): _delay(delay, str(column)) for column, delay in value.items()}


def mapping(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"must be a mapping, not {_shown(value)}")
    return value


def anything(value: Value) -> Value:
    return value


@dataclass(frozen=True, slots=True)
class Choice:
    """A kind of value, with all that it can be."""

    choices: tuple[str, ...]

    def __call__(self, value: Value) -> str:
        if value not in self.choices:
            raise ValueError(f"must be one of {', '.join(self.choices)}, not {_shown(value)}")
        return str(value)


def one_of(*choices: str) -> Kind:
    return Choice(choices)


def with_variables(value: Value, environment: Mapping[str, str] = os.environ) -> Value:
    """`${NAME}` in any text becomes the environment's value: passwords need not be in the file."""
    if isinstance(value, dict):
        return {name: with_variables(one, environment) for name, one in value.items()}
    if isinstance(value, list):
        return [with_variables(one, environment) for one in value]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> str:
        if match[1] not in environment:
            raise ValueError(f"the environment has no variable {match[1]!r}")
        return environment[match[1]]

    return VARIABLE.sub(found, value)


def _delay(value: Value, column: str) -> str:
    if re.fullmatch(r"0(?:\.0+)?\s*[a-z]*", str(value)):
        return "0 milliseconds"
    if isinstance(value, str) and INTERVAL.fullmatch(value):
        # Of several parts, as Spark writes them.
        return value
    return f"{_milliseconds(value, column)} milliseconds"


def _milliseconds(value: Value, what: str) -> int:
    # What durations lies beside brings Spark, and a file is read before that is started.
    from levada.spark.rows.durations import milliseconds

    return milliseconds(value if isinstance(value, str | int | float) else repr(value), what)


def _option(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else text(value)


def _shown(value: Value) -> str:
    return {dict: "a mapping", list: "a list", type(None): "nothing"}.get(type(value)) or repr(value)
