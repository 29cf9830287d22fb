"""Finds the error codes in a response, by a function compiled for its class: most responses have none to find."""

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from levada.protocol.declare import Struct
from levada.protocol.schema import fields_of

CountErrors: TypeAlias = Callable[[Any, "Counter[int]"], int]
"""Adds the response's codes other than NONE to the counter, and tells how many there were."""


def error_counter(response: type[Any]) -> CountErrors:
    lines = ["def count(message, errors):", "    found = 0", *_search(response, "message", "    "), "    return found"]
    namespace: dict[str, Any] = {}
    exec("\n".join(lines), namespace)
    counter: CountErrors = namespace["count"]
    return counter


def _search(cls: type[Struct], holder: str, indent: str) -> list[str]:
    lines: list[str] = []
    for field in fields_of(cls):
        path = f"{holder}.{field.name}"
        if field.name.endswith("error_code"):
            lines += [f"{indent}if {path}:", f"{indent}    errors[{path}] += 1", f"{indent}    found += 1"]
        if field.struct is None or not field.is_array:
            continue
        item = f"each{len(indent)}"
        inner = _search(field.struct, item, indent + "    ")
        if inner:
            lines += [f"{indent}for {item} in {path} or ():", *inner]
    return lines
