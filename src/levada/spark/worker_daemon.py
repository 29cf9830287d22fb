"""PySpark's daemon as our launcher starts it: its workers are silent where nothing is wrong, and end when they should.

`python -m levada.spark.worker_daemon MODULE` is `python -m pyspark.daemon MODULE` but for two things.

- Spark hangs up on a worker of which it needs no more rows, as `show` does, or when a query is stopped. That is no
  error, and over a Unix socket the worker sees it where over TCP it would not.
- What stops a pipeline must not stop its Python workers first: where the pipeline asks for it, daemon and workers are
  deaf to SIGTERM and SIGINT. They end when Java closes their input, as it does at its own end, however that comes.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

DEAF: Final = "LEVADA_SPARK_DEAF"
"""Set to 1 in the environment of a pipeline."""
IGNORED: Final = (signal.SIGTERM, signal.SIGINT)
HUNG_UP: Final = (BrokenPipeError, ConnectionResetError)
Handler = Callable[[int, FrameType | None], Any] | int | None


class QuietTraceback:
    """The module `traceback` for PySpark's daemon."""

    format_exc = staticmethod(traceback.format_exc)

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], HUNG_UP):
            traceback.print_exc()


def pass_over(number: int, frame: FrameType | None) -> None:
    """Unlike SIG_IGN it is not inherited by programs that functions of the user start: those hear as ever."""


def deafened(set_handler: Callable[[int, Handler], Any]) -> Callable[[int, Handler], Any]:
    """`signal.signal`, but those signals stay without effect."""
    return lambda number, handler: set_handler(number, pass_over if number in IGNORED else handler)


def main() -> None:
    from pyspark import daemon

    vars(daemon)["traceback"] = QuietTraceback
    if os.environ.get(DEAF) == "1":
        for number in IGNORED:
            signal.signal(number, pass_over)
        # The daemon sets handlers of its own, and in each worker that it forks the default ones again.
        signal.signal = deafened(signal.signal)  # type: ignore[assignment]
    daemon.manager()


if __name__ == "__main__":
    main()
