"""Builds the packages of a release and tries each in an environment of its own: `python -m tools.release_check`.

A wheel with the compiled parts, a wheel without them, and the source package from which pip builds one. They are made
from what git tracks, as it stands in the tree, and are left in dist/. It needs git, a C compiler and the package index.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
SMOKE = Path(__file__).with_name("release_smoke.py")
INSTALL_SECONDS = 900
"""A bound: pip compiles the source package, with the compiler's best optimization."""

WANTED = ("levada/py.typed", "levada/cli/main.py", "pyspark_levada/py.typed")
"""Some of what a package must have, each for a rule of pyproject.toml that could lose it."""
UNWANTED = ("tests/", "tools/", "benchmarks/")


class ReleaseError(Exception):
    """The release is not as it should be; says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Package:
    title: str
    path: Path
    is_compiled: bool
    """What must be so once it is installed."""


def main() -> int:
    start = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="levada-release-") as directory:
            packages = build(Path(directory))
            for package in packages:
                check_contents(package)
                try_out(package, Path(directory))
    except ReleaseError as error:
        print(f"release-check: {error}", file=sys.stderr)
        return 1
    print(f"All {len(packages)} packages install and serve ({time.monotonic() - start:.0f} s); they are in dist/.")
    return 0


def build(directory: Path) -> list[Package]:
    """All three, in dist/."""
    source = directory / "source"
    copy_tracked(source)
    shutil.rmtree(DIST, ignore_errors=True)
    made: list[Package] = []
    for title, kind, pattern, is_pure in (
        ("wheel with compiled parts", "--wheel", "*-linux_*.whl", False),
        ("wheel without them", "--wheel", "*-none-any.whl", True),
        ("source package", "--sdist", "*.tar.gz", False),
    ):
        print(f"building the {title}", flush=True)
        # What one build leaves behind would be taken into the next.
        shutil.rmtree(source / "build", ignore_errors=True)
        command = [sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", str(DIST), str(source)]
        run(command, {"LEVADA_PURE": "1" if is_pure else "0"})
        found = sorted(DIST.glob(pattern))
        if len(found) != 1:
            raise ReleaseError(f"the {title} is not there: dist/ has {sorted(path.name for path in DIST.iterdir())}")
        made.append(Package(title, found[0], not is_pure))
    return made


def copy_tracked(source: Path) -> None:
    """Neither what was built in place nor what lies about gets into a package."""
    names = run(["git", "ls-files", "-z"]).split("\0")
    for name in names:
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)


def check_contents(package: Package) -> None:
    if package.path.suffix == ".whl":
        with zipfile.ZipFile(package.path) as wheel:
            names = wheel.namelist()
        wanted: tuple[str, ...] = (*WANTED, f"levada-{version()}.dist-info/licenses/LICENSE")
        unwanted = [name for name in names if name.startswith(UNWANTED)]
    else:
        with tarfile.open(package.path) as archive:
            names = [name.partition("/")[2] for name in archive.getnames()]
        units = [str(path.relative_to(ROOT)) for path in (ROOT / "src").rglob("*.p[yx][xd]")]
        wanted = ("pyproject.toml", "setup.py", "LICENSE", *units, *(f"src/{name}" for name in WANTED))
        unwanted = [name for name in names if name.endswith((".so", ".c"))]
    missing = sorted(set(wanted) - set(names))
    if missing or unwanted:
        raise ReleaseError(f"{package.path.name} lacks {missing} and should not have {unwanted}")


def try_out(package: Package, directory: Path) -> None:
    """Install it where nothing else is, and use it."""
    print(f"trying the {package.title}: {package.path.name}", flush=True)
    place = directory / package.title.replace(" ", "-")
    python = place / "venv" / "bin" / "python"
    venv.create(place / "venv", with_pip=True)
    pip = [str(python), "-I", "-m", "pip", "--disable-pip-version-check"]
    run([*pip, "install", "--quiet", str(package.path)])
    run([*pip, "check"])
    compiled = run([str(python), "-I", str(SMOKE), str(place)], directory=place).split()
    wanted = units() if package.is_compiled else []
    if compiled != wanted:
        raise ReleaseError(f"{package.path.name}: {compiled} are compiled instead of {wanted}")


def units() -> list[str]:
    """The modules that a compiler makes."""
    source = ROOT / "src"
    return sorted(".".join(path.relative_to(source).with_suffix("").parts) for path in source.rglob("*.pyx"))


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def run(command: list[str], more: Mapping[str, str] | None = None, directory: Path = ROOT) -> str:
    """What it prints, without a PYTHONPATH by which the source tree would be found; ReleaseError if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ran = subprocess.run(
        command,
        cwd=directory,
        env={**environment, **(more or {})},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if ran.returncode != 0:
        raise ReleaseError(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
