"""Keeps signals from what Spark starts: a pipeline that is told to stop needs its Java and its workers for its batch.

A terminal sends Ctrl-C to a whole group of processes, systemd and a shutdown of the machine SIGTERM to all of them.

- *Java* honours a signal that is ignored when it is started. PySpark sees to that for SIGINT, and takes no word from
  us for others; so what is forked while `shielded` is open ignores SIGTERM before it becomes Java. Its input is closed
  when this process ends, and then it ends as well.
- *Python's workers* belong to daemons that set handlers, and Spark has a setting for some of these daemons only. So
  what Spark takes for its Python is a script that starts ours in their place.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from levada.spark.java import writable_place
from levada.spark.worker_python import worker_python

PYTHON, REAL_PYTHON = "PYSPARK_PYTHON", "LEVADA_SPARK_PYTHON"
SCRIPT_NAME: Final = "spark-python"
SCRIPT: Final = f"""#!/bin/sh
if [ "$1" = -m ] && [ "$2" = pyspark.daemon ]; then
  shift 2
  set -- -m levada.spark.worker_daemon "$@"
fi
exec "${REAL_PYTHON}" "$@"
"""

_is_open = False
"""Whether Java is being started."""


@contextmanager
def shielded(*, has_workers: bool) -> Iterator[None]:
    """Where Spark is started; `has_workers` says whether the workers belong to it, or to a cluster."""
    global _is_open
    before = {name: os.environ.get(name) for name in (PYTHON, REAL_PYTHON)}
    script = _script() if has_workers else None
    if script is not None:
        os.environ.update({REAL_PYTHON: before[PYTHON] or worker_python(), PYTHON: str(script)})
    _is_open = True
    try:
        yield
    finally:
        _is_open = False
        for name, value in before.items() if script is not None else ():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _script() -> Path | None:
    """Made beside its place and moved there: two processes may do it at the same time."""
    try:
        script = writable_place() / SCRIPT_NAME
        if not (script.is_file() and os.access(script, os.X_OK) and script.read_text() == SCRIPT):
            made = script.with_name(f"{SCRIPT_NAME}.{os.getpid()}")
            made.write_text(SCRIPT)
            made.chmod(0o755)
            made.replace(script)
        return script
    except OSError:
        # A pipeline without it can be run, and be stopped by a signal to its first process.
        return None


def _ignore_sigterm() -> None:
    if _is_open:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


# Not around the start of Java, for then a signal would be lost that comes meanwhile: in the new process alone.
os.register_at_fork(after_in_child=_ignore_sigterm)
