"""Cases that describe the levels of loggers and change them; the root is the one that both brokers have."""

from levada.protocol.api import ApiKey
from tests.interop.differential.cases import EVERY, Case, Table
from tests.interop.differential.config_cases import (
    APPEND,
    DELETE,
    LOGGER,
    SET,
    SUBTRACT,
    THIS,
    Op,
    change,
    change_all,
    described,
)
from tests.interop.differential.requests import describe

_ROOT = "root"
_QUIET: Op = (_ROOT, SET, "ERROR")

_CHANGES: dict[str, list[Op]] = {
    "set": [(_ROOT, SET, "WARN")],
    "another": [(_ROOT, SET, "FATAL")],
    "small letters": [(_ROOT, SET, "info")],
    "blanks": [(_ROOT, SET, " INFO ")],
    "unknown level": [(_ROOT, SET, "LOUD")],
    "no level": [(_ROOT, SET, "")],
    "null": [(_ROOT, SET, None)],
    "unknown logger": [("no.such.logger", SET, "INFO")],
    "unknown logger and level": [("no.such.logger", SET, "LOUD")],
    "good and unknown": [_QUIET, ("no.such.logger", SET, "INFO")],
    "deleted": [(_ROOT, DELETE, None)],
    "unknown logger deleted": [("no.such.logger", DELETE, None)],
    "appended": [(_ROOT, APPEND, "INFO")],
    "subtracted": [(_ROOT, SUBTRACT, "INFO")],
    "unknown operation": [(_ROOT, 9, "INFO")],
    "a logger twice": [_QUIET, (_ROOT, SET, "WARN")],
    "nothing": [],
}


def _changed(what: str, operations: list[Op]) -> list[Case]:
    """The change, and what it came to."""
    return [Case(what, lambda _: change(LOGGER, THIS, *operations)), described(what, LOGGER, THIS, _ROOT)]


LOGGERS = Table(
    "Loggers",
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    [
        *(case for what, given in _CHANGES.items() for case in _changed(what, given)),
        Case("validated only", lambda _: change(LOGGER, THIS, _QUIET, validate_only=True)),
        Case("bad, validated only", lambda _: change(LOGGER, THIS, (_ROOT, SET, "x"), validate_only=True)),
        described("validated only", LOGGER, THIS, _ROOT),
        Case("twice", lambda _: change_all((LOGGER, THIS, [_QUIET]), (LOGGER, THIS, [_QUIET]))),
        Case("of another broker", lambda _: change(LOGGER, "7", _QUIET)),
        Case("of no number", lambda _: change(LOGGER, "one", _QUIET)),
        Case("of no broker", lambda _: change(LOGGER, "", _QUIET)),
        Case(
            "in every version",
            lambda _: describe(LOGGER, THIS, _ROOT),
            api=ApiKey.DESCRIBE_CONFIGS,
            versions=EVERY,
        ),
        described("unknown", LOGGER, THIS, "no.such.logger"),
        described("of another broker", LOGGER, "7"),
        described("of no number", LOGGER, "one"),
        described("of no broker", LOGGER, ""),
        Case("loud again", lambda _: change(LOGGER, THIS, (_ROOT, SET, "INFO"))),
    ],
)
