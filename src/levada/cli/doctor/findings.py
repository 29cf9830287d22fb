"""What a check can find."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Nothing is lost by it, but the operator should know."""
    RISK = "risk"
    """Records can be lost, missed or doubled, or the broker can fail."""


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    where: str
    """The topic, broker, file or part of the machine."""
    what: str
    """What is so, with the setting and its value."""
    remedy: str = ""
    """The setting, with a value, or the act that removes it."""

    def text(self) -> str:
        return f"{self.where}: {self.what}" + (f"; {self.remedy}" if self.remedy else "")


def ok(where: str, what: str) -> Finding:
    return Finding(Level.OK, where, what)


def note(where: str, what: str, remedy: str) -> Finding:
    return Finding(Level.NOTE, where, what, remedy)


def risk(where: str, what: str, remedy: str) -> Finding:
    return Finding(Level.RISK, where, what, remedy)
