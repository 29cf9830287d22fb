"""The page of worked examples names tests that are there, and all tests that are named after an example."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "scenarios.md").read_text()
NAMED = re.findall(r"^- `(tests/[\w/]+\.py)::(\w+)`$", PAGE, re.MULTILINE)
EXAMPLES = re.split(r"^### (?=\d)", PAGE, flags=re.MULTILINE)[1:]
LATER = re.compile(r"\*\*comes?\s+with\s+the\s+cluster", re.IGNORECASE)


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(("file", "test"), NAMED, ids=[test for _, test in NAMED])
def test_a_test_that_the_page_names_is_there(file: str, test: str) -> None:
    assert (ROOT / file).is_file()
    assert test in functions_of(ROOT / file)


def test_no_mention_of_a_test_is_overlooked() -> None:
    assert PAGE.count(".py::") == len(NAMED) == len(set(NAMED))


def test_every_test_named_after_an_example_is_on_the_page() -> None:
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    existing = {
        (str(path.relative_to(ROOT)), name)
        for path in paths
        if path.parent.name != "tidy"
        for name in functions_of(path)
        if name.startswith("test_scenario_")
    }
    assert existing - set(NAMED) == set()


def test_the_examples_are_numbered_in_order_and_each_has_a_test_or_says_when_it_comes() -> None:
    numbers = [int(example.partition(".")[0]) for example in EXAMPLES]
    assert numbers == list(range(1, len(EXAMPLES) + 1))
    assert [example for example in EXAMPLES if ".py::" not in example and not LATER.search(example)] == []


def test_a_test_named_after_an_example_stands_at_that_example() -> None:
    for number, example in enumerate(EXAMPLES, 1):
        found = re.findall(r"::test_scenario_(\d+)_", example)
        assert set(map(int, found)) <= {number}
