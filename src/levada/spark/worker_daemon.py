"""PySpark's daemon for a pipeline that runs here: what stops the pipeline must not stop its Python workers first.

`python -m levada.spark.worker_daemon MODULE` is `python -m pyspark.daemon MODULE`, deaf to SIGTERM and SIGINT. Daemon
and workers end when Java closes their input, as it does at its own end, however that comes.
"""

import signal
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

IGNORED: Final = (signal.SIGTERM, signal.SIGINT)
Handler = Callable[[int, FrameType | None], Any] | int | None


def deafened(set_handler: Callable[[int, Handler], Any]) -> Callable[[int, Handler], Any]:
    """`signal.signal`, but those signals stay ignored."""
    return lambda number, handler: set_handler(number, signal.SIG_IGN if number in IGNORED else handler)


def main() -> None:
    from pyspark.daemon import manager

    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    # The daemon sets handlers of its own, and in each worker that it forks the default ones again.
    signal.signal = deafened(signal.signal)  # type: ignore[assignment]
    manager()


if __name__ == "__main__":
    main()
