"""How `make pythons` finds Pythons, with scripts in their place."""

import tomllib
from pathlib import Path

import pytest

from tools.pythons import SERIES, Python, candidates, closing_of, dependencies, find, pyenv_versions, version_of

ROOT = Path(__file__).parents[2]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing but a shell, and places for Pythons on the PATH and at pyenv's."""
    for name in ("first", "second", "pyenv/versions"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{tmp_path / 'first'}::{tmp_path / 'second'}:{tmp_path / 'gone'}")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    return tmp_path


def add(path: Path, version: str, *, code: int = 0) -> Path:
    """A command that calls itself a Python of that version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\nexit {code}\n")
    path.chmod(0o755)
    return path


def test_a_python_on_the_path_comes_first(machine: Path) -> None:
    second = add(machine / "second" / "python3.12", "3.12.7")
    add(machine / "pyenv" / "versions" / "3.12.9" / "bin" / "python", "3.12.9")
    assert find("3.12") == Python("3.12.7", second)


def test_what_pyenv_leaves_for_a_version_that_is_not_chosen_is_passed_over(machine: Path) -> None:
    add(machine / "first" / "python3.12", "", code=127)
    pyenv = [
        add(machine / "pyenv" / "versions" / name / "bin" / "python", name) for name in ("3.12.9", "3.12.10", "3.1.2")
    ]
    add(machine / "pyenv" / "versions" / "3.12-dev" / "bin" / "python", "3.12.99")
    assert find("3.12") == Python("3.12.10", pyenv[1])
    assert list(candidates("3.12", [], pyenv_versions())) == [pyenv[1], pyenv[0]]


def test_a_command_of_another_version_is_none(machine: Path) -> None:
    add(machine / "first" / "python3.12", "3.11.4")
    (machine / "second" / "python3.12").write_text("not a command")
    assert find("3.12") is None
    assert find("3.14") is None


def test_what_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "nothing") is None
    assert version_of(add(tmp_path / "python", "3.13.0")) == "3.13.0"


def test_the_classifiers_name_pythons_that_are_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: 3."
    named = [name.rpartition(" ")[2] for name in project["classifiers"] if name.startswith(prefix)]
    assert named == list(SERIES[: len(named)])
    assert project["requires-python"] == f">={SERIES[0]}"


def test_the_quick_tests_get_the_extras_they_import() -> None:
    names = dependencies((ROOT / "pyproject.toml").read_text())
    assert any(name.startswith("pyarrow") for name in names)
    assert not any(name.startswith("pyspark") for name in names)


def test_the_closing_line_says_what_passed() -> None:
    assert closing_of("....\n1 failed, 6502 passed in 83.43s (0:01:23)\n") == "1 failed, 6502 passed"
