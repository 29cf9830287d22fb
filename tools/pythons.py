"""Installs Levada for each Python that is here, and runs the quick tests on all of them: `python -m tools.pythons`.

Each gets an environment of its own in .venv-pythons/, with what git tracks as it stands in the tree, installed and
compiled as users do it, and the versions of requirements/dev.lock. Arguments are versions, such as `3.12`; all without
any. Spark and other people's clients are not installed: they have Pythons of their own to support.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.release_check import ROOT, SMOKE, copy_tracked, units

SERIES = ("3.11", "3.12", "3.13", "3.14")
"""The classifiers of pyproject.toml name those among them that have passed."""
ENVIRONMENTS = ROOT / ".venv-pythons"
LOCK = ROOT / "requirements" / "dev.lock"
NEEDED = ("setuptools", "Cython", "pytest", "pytest-timeout", "hypothesis", "pandas", "pyyaml")
"""Beside Levada and its extras `arrow` and `metrics`: what builds it, and what the quick tests import."""
EXTRAS = ("arrow", "metrics")
QUICK = ("tests/unit", "tests/scenarios")
WITHOUT = ("tests/unit/spark",)
"""It imports pyspark: `make test` has it."""
NOT_COMPILED = "nothing is compiled"

INSTALL_SECONDS = 900
TESTS_SECONDS = 1800


class PythonFailed(Exception):
    """Something does not work on a Python; says what, in a line or with what was printed above it."""


@dataclass(frozen=True, slots=True)
class Python:
    version: str
    """As in 3.12.1."""
    path: Path

    @property
    def series(self) -> str:
        return series_of(self.version)


def main() -> int:
    wanted = sys.argv[1:] or SERIES
    if unknown := sorted(set(wanted) - set(SERIES)):
        print(f"pythons: {unknown[0]} is none of {', '.join(SERIES)}", file=sys.stderr)
        return 2
    found = {series: find(series) for series in wanted}
    outcomes = {series: outcome(python) for series, python in found.items() if python is not None}
    for series in wanted:
        said = outcomes.get(series, (True, "not found on this machine, skipped"))[1]
        print(f"Python {series}: {said}")
    # Nothing was tried where nothing was found.
    return 0 if outcomes and all(is_well for is_well, _ in outcomes.values()) else 1


def find(series: str) -> Python | None:
    """The first that runs: pyenv leaves commands on the PATH for versions that are not chosen, and they fail."""
    for path in candidates(series, os.environ.get("PATH", "").split(os.pathsep), pyenv_versions()):
        version = version_of(path)
        if version is not None and series_of(version) == series:
            return Python(version, path)
    return None


def candidates(series: str, path: Iterable[str], versions: Path) -> Iterator[Path]:
    """Where a Python may be: on the PATH, then pyenv's, its newest first."""
    for directory in path:
        command = Path(directory) / f"python{series}"
        if directory and os.access(command, os.X_OK) and command.is_file():
            yield command
    names = [entry.name for entry in versions.glob(f"{series}.*") if re.fullmatch(r"\d+(\.\d+)+", entry.name)]
    for name in sorted(names, key=lambda name: [int(part) for part in name.split(".")], reverse=True):
        yield versions / name / "bin" / "python"


def pyenv_versions() -> Path:
    return Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"


def version_of(path: Path) -> str | None:
    """What it says of itself; None if it does not run."""
    command = [str(path), "-I", "-c", "import platform; print(platform.python_version())"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return None
    return ran.stdout.strip() if ran.returncode == 0 else None


def series_of(version: str) -> str:
    """
    >>> series_of("3.14.0rc2")
    '3.14'
    """
    return ".".join(version.split(".")[:2])


def outcome(python: Python) -> tuple[bool, str]:
    """Whether all is well on it, and the line that says so."""
    start = time.monotonic()
    print(f"== Python {python.version}, {python.path}", flush=True)
    try:
        said = try_out(python)
    except PythonFailed as error:
        return False, f"FAILED on {python.version}: {error}"
    return True, f"{python.version}: {said} ({time.monotonic() - start:.0f} s)"


def try_out(python: Python) -> str:
    """Install, use and test; what came of it."""
    own = environment(python)
    with tempfile.TemporaryDirectory(prefix="levada-pythons-") as name:
        directory = Path(name)
        install(own, directory / "source")
        compiled = run([str(own), "-I", str(SMOKE), str(directory)], "a broker, a producer and a consumer").split()
    if not compiled:
        # Half of the unit tests compare the compiled parts with their twins.
        return f"a broker serves, no quick tests: {NOT_COMPILED}, which takes a C compiler"
    if compiled != units():
        raise PythonFailed(f"{', '.join(sorted(set(units()) - set(compiled)))} could not be compiled")
    ignored = [f"--ignore={folder}" for folder in WITHOUT]
    command = [str(own), "-m", "pytest", "-q", "-p", "no:cacheprovider", *ignored, *QUICK]
    printed = run(command, "the quick tests", TESTS_SECONDS)
    return f"compiled, a broker serves, {closing_of(printed)}"


def environment(python: Python) -> Path:
    """The Python of an environment that was made by this very version."""
    directory = ENVIRONMENTS / python.series
    own = directory / "bin" / "python"
    if not own.exists() or version_of(own) != python.version:
        run([str(python.path), "-m", "venv", "--clear", str(directory)], "making an environment")
    return own


def install(own: Path, source: Path) -> None:
    copy_tracked(source)
    pip = [str(own), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    installing = [*pip, "install", "--constraint", str(LOCK)]
    run([*installing, *NEEDED], "installing what the tests need")
    # First with what it depends on, then anew whatever was there: its version does not change with its files.
    building = [*installing, "--no-build-isolation"]
    run([*building, *dependencies((source / "pyproject.toml").read_text())], "installing the dependencies")
    run([*building, "--no-deps", "--force-reinstall", str(source)], "installing Levada")
    run([*pip, "check"], "what is installed")


def dependencies(pyproject: str) -> list[str]:
    project = tomllib.loads(pyproject)["project"]
    return [*project["dependencies"], *(name for extra in EXTRAS for name in project["optional-dependencies"][extra])]


def closing_of(printed: str) -> str:
    """What pytest says last, without the time.

    >>> closing_of("....\\n6502 passed, 1 skipped in 83.43s (0:01:23)\\n")
    '6502 passed, 1 skipped'
    """
    return printed.strip().splitlines()[-1].partition(" in ")[0]


def run(command: Sequence[str], purpose: str, seconds: int = INSTALL_SECONDS) -> str:
    """What it prints, with nothing of the source tree on its path; PythonFailed if it fails, with its output shown."""
    print(f"   {purpose}", flush=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=environ, timeout=seconds, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise PythonFailed(f"{purpose} took longer than {seconds} s") from None
    if ran.returncode != 0:
        print(ran.stdout)
        raise PythonFailed(f"{purpose} ended with {ran.returncode}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
