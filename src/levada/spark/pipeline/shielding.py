"""Keeps signals from what Spark starts: a pipeline that is told to stop needs its Java and its workers for its batch.

A terminal sends Ctrl-C to a whole group of processes, systemd and a shutdown of the machine SIGTERM to all of them.

- *Java* honours a signal that is ignored when it is started. PySpark sees to that for SIGINT, and takes no word from
  us for others; so what is forked while `shielded` is open ignores SIGTERM before it becomes Java. Its input is closed
  when this process ends, and then it ends as well.
- *Python's workers* belong to daemons that set handlers. The launcher that Spark takes for its Python starts daemons of
  ours, which ignore such signals where the environment says so.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from levada.spark.worker_daemon import DEAF
from levada.spark.worker_python import worker_python

PYTHON: Final = "PYSPARK_PYTHON"

_is_open = False
"""Whether Java is being started."""


@contextmanager
def shielded(*, has_workers: bool) -> Iterator[None]:
    """Where Spark is started; `has_workers` says whether the workers belong to it, or to a cluster."""
    global _is_open
    before = {name: os.environ.get(name) for name in (PYTHON, DEAF)}
    if has_workers:
        os.environ.update({PYTHON: worker_python(before[PYTHON]), DEAF: "1"})
    _is_open = True
    try:
        yield
    finally:
        _is_open = False
        for name, value in before.items() if has_workers else ():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _ignore_sigterm() -> None:
    if _is_open:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


# Not around the start of Java, for then a signal would be lost that comes meanwhile: in the new process alone.
os.register_at_fork(after_in_child=_ignore_sigterm)
