"""Numbers that clients write as text."""

import re

_WHOLE = re.compile(r"[+-]?\d{1,100}")
_MIN_INT32, _MAX_INT32 = -(2**31), 2**31 - 1


def parse_int32(text: str) -> int | None:
    """The number that a text is, or None: most texts are no numbers, and some are numbers too long to be read."""
    if not _WHOLE.fullmatch(text):
        return None
    number = int(text)
    return number if _MIN_INT32 <= number <= _MAX_INT32 else None
