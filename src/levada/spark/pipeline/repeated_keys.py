"""YAML that says a thing once: PyYAML itself takes the last of two equal keys and drops the first in silence."""

from collections.abc import Iterator

import yaml

from levada.spark.pipeline.problems import Problem
from levada.spark.pipeline.values import Value


def read_yaml(text: str) -> tuple[Value, list[Problem]]:
    """What it says, and each key that is there twice; yaml.YAMLError if it is no YAML."""
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, []
        # Before anything is made of it: that takes what `<<` merges into a mapping for a part of it.
        problems = list(_repeated(node, "", set()))
        return loader.construct_document(node), problems
    finally:
        loader.dispose()


def _repeated(node: yaml.Node, path: str, seen: set[int]) -> Iterator[Problem]:
    if id(node) in seen:
        # An alias of what was looked at already.
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated(item, f"{path}[{index}]", seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            place = f"{path}.{key.value}" if path else str(key.value)
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                first = lines.get((key.tag, key.value))
                if first is not None:
                    where = f"lines {first} and {line}" if first != line else f"line {line}"
                    yield Problem(place, f"is there twice, in {where}")
                lines.setdefault((key.tag, key.value), line)
            yield from _repeated(value, place, seen)
