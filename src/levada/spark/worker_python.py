"""The Python that Spark starts for tasks and queries on this machine."""

import os
import shlex
import site
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import pyspark

from levada.spark.java import writable_place

LAUNCHER = """#!/bin/sh
# Spark puts its own sources first on the path, as a zip, which each Python would compile anew: most of a second for
# every query that starts. The same package is installed beside this Python, compiled.
set -f
IFS=:
kept=
for place in $PYTHONPATH; do
  case $place in
    {sources}/*) ;;
    *) kept=${{kept:+$kept:}}$place ;;
  esac
done
unset IFS
export PYTHONPATH="$kept"
exec {python} "$@"
"""


def worker_python() -> str:
    """A launcher of this Python that spares it the compiling; this Python itself where that cannot be."""
    package = Path(pyspark.__file__).parent
    if not _is_installed(package):
        # Such as Spark's own distribution: its sources are not those that workers would find.
        return sys.executable
    text = LAUNCHER.format(sources=shlex.quote(str(package / "python")), python=shlex.quote(sys.executable))
    try:
        return str(_written(text))
    except OSError:
        return sys.executable


def _is_installed(package: Path) -> bool:
    return package.parent in {Path(place) for place in (*site.getsitepackages(), site.getusersitepackages())}


def _written(text: str) -> Path:
    """Beside it and moved: two processes may do this at the same time."""
    path = writable_place() / f"python-{sha256(text.encode()).hexdigest()[:12]}"
    if os.access(path, os.X_OK):
        return path
    descriptor, written = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    with open(descriptor, "w") as file:
        file.write(text)
    os.chmod(written, 0o755)
    os.replace(written, path)
    return path
