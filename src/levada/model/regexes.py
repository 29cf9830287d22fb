"""Regular expressions of clients, compiled by RE2 within bounds: none takes more than linear time, or much memory."""

from functools import lru_cache
from typing import Final, Protocol

MAX_LENGTH: Final = 4_096
MAX_MEMORY: Final = 256 * 1024
"""Of a compiled expression; RE2 gives up beyond."""
KEPT: Final = 32


class Regex(Protocol):
    """What RE2 makes of an expression, and what is used of it."""

    @property
    def programsize(self) -> int:
        """How large it is compiled, and so how long a name takes."""

    def fullmatch(self, text: str | bytes, /) -> object | None: ...


class InvalidRegex(ValueError):
    """No regular expression, or one that is too large; the text is RE2's."""


def compiled(pattern: str) -> Regex:
    """The expression as an object of RE2; each is compiled once, however many partitions ask for it."""
    outcome, fault = _outcome(pattern)
    if outcome is None:
        raise InvalidRegex(fault)
    return outcome


@lru_cache(KEPT)
def _outcome(pattern: str) -> tuple[Regex | None, str]:
    """Not an error itself, which would keep the frames of all that it is raised in."""
    # A library with compiled code, which few brokers need.
    import re2

    if len(pattern) > MAX_LENGTH:
        return None, "pattern too large"
    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = MAX_MEMORY
    try:
        return re2.compile(pattern, options), ""
    except re2.error as error:
        text = error.args[0] if error.args else ""
        return None, text.decode(errors="replace") if isinstance(text, bytes) else str(text)
