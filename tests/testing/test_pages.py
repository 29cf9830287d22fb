"""The page about testing: its examples are files that run, and what it shows is what they say."""

import doctest
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.pages import blocks_of

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "testing.md"
EXAMPLES = sorted((ROOT / "examples" / "testing").glob("test_*.py"))
WITH_EXAMPLES = ("embedded", "faults", "settings", "simulation", "waiting")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_page_shows_an_example_as_it_is(path: Path) -> None:
    shown = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    assert path.read_text() in shown, f"copy examples/testing/{path.name} to docs/testing.md"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_passes_as_users_run_it(path: Path, tmp_path: Path) -> None:
    (tmp_path / path.name).write_text(path.read_text())
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-W", "error", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    assert ran.stderr == ""


def test_every_block_of_the_page_is_python_or_says_why_it_is_not_run() -> None:
    assert [str(block) for block in blocks_of(PAGE) if block.language != "python" and not block.not_run] == []


def test_there_are_three_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_in_docstrings_hold(name: str) -> None:
    module = import_module(f"levada.testing.{name}")
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0


def test_the_short_examples_of_the_page_hold(tmp_path: Path) -> None:
    """Those of a few lines are collected in one file, in the order of the page."""
    shown = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    short = [text for text in shown if text not in {path.read_text() for path in EXAMPLES}]
    assert len(short) >= 4
    (tmp_path / "test_page.py").write_text("\n\n".join(short))
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-W", "error", "-p", "no:cacheprovider"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
