"""The package installs where there is no C compiler, and says so once when it runs."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

QUICK_COMPILER = """#!/bin/sh
exec "{compiler}" "$@" -O0
"""
"""What is looked at is what lands in the wheel, not how fast it runs; `make install` optimizes the same sources."""


def test_make_install_says_what_it_does_before_it_begins(tmp_path: Path) -> None:
    """With a pip that does nothing: what is looked at is what a user sees meanwhile, which is a line and no more."""
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 0\n")
    python.chmod(0o755)
    command = ["make", "--no-print-directory", "install", f"VENV={tmp_path / 'venv'}", f"PYTHON={sys.executable}"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    (line,) = ran.stdout.splitlines()
    assert "1.5 GB" in line
    assert "a minute or two" in line
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "1.5 GB" not in again.stdout


@pytest.mark.parametrize("has_compiler", [False, True])
def test_a_wheel_is_built_with_and_without_a_compiler(tmp_path: Path, has_compiler: bool) -> None:
    real_compiler = shutil.which("cc") or shutil.which("gcc")
    if has_compiler and real_compiler is None:
        pytest.skip("no C compiler here to build the kernel with")
    compiler = tmp_path / "cc"
    compiler.write_text(QUICK_COMPILER.format(compiler=real_compiler))
    compiler.chmod(0o755)
    wheel = built_wheel(tmp_path, CC=str(compiler) if has_compiler else "/bin/false")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    assert any(name.endswith(".so") for name in names) == has_compiler
    assert "levada/py.typed" in names
    code = "import levada.records, levada.records.builder; print(levada.records.COMPILED)"
    ran = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.strip() == str(has_compiler)
    assert ran.stderr.count("compiled record kernel is missing") == (0 if has_compiler else 1)


def test_a_wheel_without_compiled_parts_can_be_asked_for_and_is_for_every_machine(tmp_path: Path) -> None:
    wheel = built_wheel(tmp_path, LEVADA_PURE="1")
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith((".so", ".c"))] == []


def built_wheel(directory: Path, **environment: str) -> Path:
    """From a copy of the sources, without what was built in place."""
    source = directory / "source"
    source.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, source)
    built = shutil.ignore_patterns("*.so", "_kernel.c", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", source / "src", ignore=built)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w"]
    result = subprocess.run(
        [*command, str(directory), str(source)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    (wheel,) = directory.glob("*.whl")
    return wheel
