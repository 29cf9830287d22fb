"""The Python that Spark starts for tasks and queries on this machine: a launcher of ours, where one can be had."""

import os
import shlex
import site
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

import pyspark

from levada.spark.java import writable_place

PREFIX: Final = "spark-python-"
START: Final = """#!/bin/sh
# Workers come from a daemon of ours, which is Spark's own and knows when to be silent.
if [ "$1" = -m ] && [ "$2" = pyspark.daemon ]; then
  shift 2
  set -- -m levada.spark.worker_daemon "$@"
fi
"""
WITHOUT_ZIP: Final = """
# Spark puts its own sources first on the path, as a zip, which each Python would compile anew: most of a second
# for every query that starts. The same package is installed beside this Python, compiled.
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
"""


def worker_python(given: str | None = None) -> str:
    """A launcher of a Python, of this one unless told otherwise; the Python itself where there can be none."""
    python = given or sys.executable
    if is_launcher(python):
        return python
    package = Path(pyspark.__file__).parent
    text = START
    # Spark's own distribution has sources that are not those which the workers of this Python would find.
    if python == sys.executable and _is_installed(package):
        text += WITHOUT_ZIP.format(sources=shlex.quote(str(package / "python")))
    try:
        return str(_written(f'{text}exec {shlex.quote(python)} "$@"\n'))
    except OSError:
        return python


def is_launcher(python: str) -> bool:
    return Path(python).name.startswith(PREFIX)


def _is_installed(package: Path) -> bool:
    return package.parent in {Path(place) for place in (*site.getsitepackages(), site.getusersitepackages())}


def _written(text: str) -> Path:
    """Beside it and moved: two processes may do this at the same time. OSError where no file can be executed."""
    path = writable_place() / f"{PREFIX}{sha256(text.encode()).hexdigest()[:12]}"
    if os.access(path, os.X_OK):
        return path
    descriptor, written = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    with open(descriptor, "w") as file:
        file.write(text)
    os.chmod(written, 0o755)
    os.replace(written, path)
    if not os.access(path, os.X_OK):
        raise PermissionError(f"{path} cannot be executed, as of a file system that is mounted so")
    return path
