r"""Regular expressions for names of topics, as far as they mean the same in Python and in Java.

Java's are those of Spark's Kafka source. Names of topics are of ASCII letters, digits, `.`, `_` and `-`. So it makes
no difference how `.`, `$` and `(?m)` treat ends of lines; and with ASCII alone, as in Java unless it is told otherwise,
none what is a letter or a digit. What is left is syntax that only one of them has, or that they read differently: it
is refused.
"""

import re
import warnings
from dataclasses import dataclass, field
from typing import Final, NoReturn

OPTION: Final = "option 'subscribePattern'"

ESCAPES: Final = frozenset("dDwWsStnrfa")
"""Letters behind a backslash that mean the same, inside of brackets too."""
ESCAPES_OUTSIDE: Final = ESCAPES | frozenset("bBA")
HEX_DIGITS: Final = {"x": 2, "u": 4}

ADVICE: Final = {
    "p": "name the characters: [A-Za-z]",
    "P": "name the characters: [^A-Za-z]",
    "Q": "put a backslash before each special character",
    "E": "put a backslash before each special character",
    "z": "the whole name has to match in any case: leave it out",
    "Z": "the whole name has to match in any case: leave it out",
    "k": "refer to a group by its number: \\1",
}
NO_SPACE: Final = "names of topics have nothing of the kind: leave it out"
ADVICE_FOR_SPACES: Final = frozenset("hHvVRXGeN")

GROUPS: Final = ("?:", "?=", "?!", "?<=", "?<!", "?>")
FLAGS: Final = re.compile(r"\?[ims]+(?:-[ims]+)?:|\?-[ims]+:")
LEADING_FLAGS: Final = re.compile(r"\(\?[ims]+\)")
QUANTIFIER: Final = re.compile(r"\{\d+(?:,\d*)?\}")
OPERATORS: Final = ("&&", "--", "||", "~~")


class PatternRefused(ValueError):
    """An expression that is none, or not the same in Java; the text is one line that says why."""


def compiled(text: str) -> re.Pattern[str]:
    """The expression, to be matched with the whole name of a topic."""
    _Reading(text).check()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            return re.compile(text, re.ASCII)
    except (re.error, OverflowError, RecursionError, FutureWarning) as error:
        raise PatternRefused(f"{OPTION} is no regular expression: {text!r}: {error}") from None


@dataclass(slots=True)
class _Reading:
    """Goes through an expression once; PatternRefused for the first part that is not the same in both."""

    text: str
    at: int = field(default=0)

    def check(self) -> None:
        leading = LEADING_FLAGS.match(self.text)
        self.at = leading.end() if leading else 0
        while self.at < len(self.text):
            match self.text[self.at]:
                case "\\":
                    self._escape(ESCAPES_OUTSIDE)
                case "[":
                    self._brackets()
                case "(":
                    self._group()
                case "{":
                    self._quantifier()
                case _:
                    self.at += 1

    def _escape(self, known: frozenset[str], *, is_inside: bool = False) -> None:
        letter = self.text[self.at + 1 : self.at + 2]
        after = self.at + 2
        if letter in HEX_DIGITS:
            digits = self.text[after : after + HEX_DIGITS[letter]]
            if len(digits) < HEX_DIGITS[letter] or not re.fullmatch("[0-9A-Fa-f]+", digits):
                self._refuse(2, f"give {HEX_DIGITS[letter]} hexadecimal digits")
            self.at = after + len(digits)
            return
        if letter.isdecimal():
            if is_inside or letter == "0" or self.text[after : after + 1].isdecimal():
                self._refuse(3, "a number behind a backslash is a group, from \\1 to \\9: put (?:) behind it")
        elif letter.isalpha() and letter not in known:
            advice = ADVICE.get(letter, NO_SPACE if letter in ADVICE_FOR_SPACES else "name the characters")
            self._refuse(2, advice)
        self.at = after

    def _brackets(self) -> None:
        begin = self.at
        self.at += 2 if self.text.startswith("[^", self.at) else 1
        if self.text.startswith("]", self.at):
            self._refuse(1, "put a backslash before it: \\]")
        while not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                self.at = begin
                self._refuse(1, "it is not closed: put a ] behind it, or a backslash before it")
            if self.text.startswith(OPERATORS, self.at):
                self._refuse(2, "put a backslash before each, or write the characters without it")
            if self.text[self.at] == "[":
                self._refuse(1, "brackets in brackets are sets in Java alone: put a backslash before it, or join them")
            if self.text[self.at] == "\\":
                self._escape(ESCAPES, is_inside=True)
            else:
                self.at += 1
        self.at += 1

    def _group(self) -> None:
        inside = self.at + 1
        if not self.text.startswith("?", inside):
            self.at = inside
            return
        flags = FLAGS.match(self.text, inside)
        known = next((kind for kind in GROUPS if self.text.startswith(kind, inside)), None)
        if flags is None and known is None:
            self._refuse_group(inside)
        self.at = flags.end() if flags else inside + len(known or "")

    def _refuse_group(self, inside: int) -> NoReturn:
        if self.text.startswith(("?P", "?<"), inside):
            self._refuse(4, "names of groups are written differently: (...) without a name")
        if self.text.startswith("?#", inside):
            self._refuse(3, "Java has no such comments: leave it out")
        if self.text.startswith("?(", inside):
            self._refuse(3, "Java has no conditions: use | for both cases")
        self._refuse(3, "of flags i, m and s are the same, as (?i) at the beginning or (?i:...) anywhere")

    def _quantifier(self) -> None:
        found = QUANTIFIER.match(self.text, self.at)
        if found is None:
            self._refuse(2, "repeat as {2}, {2,} or {0,5}, or put a backslash before it")
        self.at = found.end()

    def _refuse(self, length: int, advice: str) -> NoReturn:
        part = self.text[self.at : self.at + length]
        shown = part if part.isprintable() else ascii(part)
        raise PatternRefused(f"{OPTION} has {shown} at {self.at}, which is not the same in Java and Python: {advice}")
