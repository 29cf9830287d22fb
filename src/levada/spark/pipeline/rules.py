"""Quality rules as a YAML file writes them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from levada.spark.pipeline.problems import PipelineError, unknown
from levada.spark.rows import check, fresh, in_range, matches, not_null, unique
from levada.spark.rows.rules import Rule

RULES: Final[Mapping[str, tuple[Callable[..., Rule], tuple[str, ...], tuple[str, ...]]]] = {
    "not_null": (not_null, ("column",), ()),
    "in_range": (in_range, ("column",), ("low", "high")),
    "matches": (matches, ("column", "pattern"), ()),
    "fresh": (fresh, ("column", "within"), ()),
    "unique": (unique, ("keys", "within"), ("timestamp",)),
    "check": (check, ("name", "condition"), ()),
}
"""By name: what makes it, what it must be told, and what it may be told."""


def rules_of(given: Any) -> list[Rule]:
    """From a list such as `[{not_null: id}, {in_range: {column: amount, low: 0}}]`."""
    if not isinstance(given, list) or not given:
        raise PipelineError("quality must be a list of rules, such as [{not_null: id}]")
    return [_rule(one) for one in given]


def _rule(given: Any) -> Rule:
    if not isinstance(given, dict) or len(given) != 1:
        raise PipelineError(f"a rule is one name with what it is about, such as {{not_null: id}}, not {given!r}")
    name, arguments = next(iter(given.items()))
    if name not in RULES:
        raise PipelineError(unknown("rule", str(name), RULES))
    make, required, optional = RULES[name]
    if not isinstance(arguments, dict):
        arguments = {required[0]: arguments}
    for key in arguments:
        if key not in (*required, *optional):
            raise PipelineError(f"rule {name}: {unknown('key', str(key), (*required, *optional))}")
    for key in required:
        if key not in arguments:
            raise PipelineError(f"rule {name}: {key!r} is missing")
    return make(**arguments)
