"""The values that are sent: random letters, entries of a file, or numbers."""

import os
import random
import re
from collections.abc import Iterator
from itertools import count
from typing import Final

from levada.cli.kit.files import read_text
from levada.cli.kit.refusals import Refused

AT_ONCE: Final = 1_000
"""Values that are made together."""

LETTERS: Final = bytes(ord("A") + byte % 26 for byte in range(256))


def random_payloads(size: int) -> Iterator[bytes]:
    at_once = max(1, min(AT_ONCE, (1 << 20) // size))
    while True:
        text = random.randbytes(size * at_once).translate(LETTERS)
        for start in range(0, len(text), size):
            yield text[start : start + size]


def numbered_payloads() -> Iterator[bytes]:
    for number in count():
        yield b"%d" % number


def file_payloads(path: str, delimiter: str) -> Iterator[bytes]:
    """Entries of a file in random order, each as often as it comes."""
    print(f"Reading payloads from: {os.path.abspath(path)}")
    entries = split_entries(read_text(path, "--payload-file"), delimiter)
    print(f"Number of records read: {len(entries)}")
    if not entries:
        raise Refused(f"there is nothing to send in --payload-file {path}")
    return iter(lambda: random.choice(entries), None)


def split_entries(text: str, delimiter: str) -> list[bytes]:
    """What lies between delimiters, which are regular expressions; one at the beginning or the end delimits nothing.

    >>> split_entries("one,,two,", ",")
    [b'one', b'', b'two']
    """
    try:
        entries = re.split(delimiter, text)
    except re.error as error:
        raise Refused(f"--payload-delimiter {delimiter} is no regular expression: {error}") from None
    if not entries[0]:
        del entries[0]
    if entries and not entries[-1]:
        entries.pop()
    return [entry.encode() for entry in entries]
