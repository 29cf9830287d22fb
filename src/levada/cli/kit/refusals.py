"""How a tool ends when it cannot do what it was asked for: one line on stderr, and an exit code that scripts see."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

FAILED: Final = 1
WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130


class Refused(Exception):
    """What was asked for cannot be done; the text says why, and what to do."""

    code = FAILED


class WrongUsage(Refused):
    """The flags do not make sense together."""

    code = WRONG_USAGE


_done: list[str] = []
"""Changes that this tool has made."""


@contextmanager
def changing(what: str) -> Iterator[None]:
    """Around a request that changes something: a user who interrupts it is told that it may have been carried out.

    One who interrupts the tool later, perhaps before it could say so, is told that it was.
    """
    try:
        yield
        _done.append(what)
    except KeyboardInterrupt as interrupt:
        # An inner call that knows more about it has said so.
        text = str(interrupt) or f"interrupted while {what}: it may or may not have been done"
        raise KeyboardInterrupt(text) from None


def guarded(run: Callable[[], int]) -> int:
    """The exit code of a tool, with one line on stderr in place of a traceback for what users run into."""
    _done.clear()
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, say `head`, has seen enough. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt as interrupt:
        after = f" after this was done: {_done[-1]}" if _done else ""
        return _end(str(interrupt) or f"interrupted{after}", INTERRUPTED)
    except Refused as refusal:
        return _end(str(refusal), refusal.code)
    except Exception as error:
        if not _is_expected(error):
            raise
        return _end(_told(error), FAILED)
    return code


def warn(text: str) -> None:
    """A line for the user that does not belong to the output."""
    sys.stdout.flush()
    print(f"levada: {' '.join(text.split())}", file=sys.stderr, flush=True)


def _end(text: str, code: int) -> int:
    try:
        warn(text)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _told(error: Exception) -> str:
    from levada.cli.kit.system_errors import in_words

    return in_words(error)


def _is_expected(error: Exception) -> bool:
    # Imported only here: a tool that ends well does not pay for it.
    from levada.client.errors import KafkaError
    from levada.model.config import ConfigError

    return isinstance(error, KafkaError | ConfigError | OSError)
