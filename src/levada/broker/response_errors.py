"""Finds the error codes in a response, by a function compiled for its class: most responses have none to find."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from levada.protocol.declare import Struct
from levada.protocol.schema import fields_of

CountErrors: TypeAlias = Callable[[object, "Counter[int]"], int]
"""Adds the response's codes other than NONE to the counter, and tells how many there were."""

ErrorCodes: TypeAlias = Callable[[object], Iterator[int]]
"""The codes of a response one by one, NONE among them."""

_COUNT = "if {0}:", "    errors[{0}] += 1", "    found += 1"
_YIELD = ("yield {0}",)


def error_counter(response: type[Any]) -> CountErrors:
    search = _search(response, "message", "    ", _COUNT)
    counter: CountErrors = _compiled(["def search(message, errors):", "    found = 0", *search, "    return found"])
    return counter


def error_codes(response: type[Any]) -> ErrorCodes:
    """For responses that are too large to be searched in one turn."""
    codes: ErrorCodes = _compiled(
        ["def search(message):", *_search(response, "message", "    ", _YIELD), "    yield 0"]
    )
    return codes


def _compiled(lines: list[str]) -> Any:
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    return namespace["search"]


def _search(cls: type[Struct], holder: str, indent: str, found: tuple[str, ...]) -> list[str]:
    lines: list[str] = []
    for field in fields_of(cls):
        path = f"{holder}.{field.name}"
        if field.name.endswith("error_code"):
            lines += [indent + line.format(path) for line in found]
        if field.struct is None or not field.is_array:
            continue
        item = f"each{len(indent)}"
        inner = _search(field.struct, item, indent + "    ", found)
        if inner:
            lines += [f"{indent}for {item} in {path} or ():", *inner]
    return lines
