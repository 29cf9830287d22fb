"""The objects that a Python worker of Spark keeps, which Spark has Python collect after every task."""

import gc

_uses = 0


def keep_loaded() -> None:
    """Let collections pass over what an earlier task has loaded; a task calls this when it begins.

    Spark ends each task of a worker that it keeps with a full collection, which looks through all modules and clients
    there are: some 10 ms each time, while the next batch wants the processor. What is there when a second task begins
    stays until the worker ends, and Spark has just collected what does not.
    """
    global _uses
    _uses += 1
    if _uses == 2:
        gc.freeze()
