"""The levels of this process's loggers, named and changed as Kafka's tools do it (KIP-412)."""

import logging
from collections.abc import Sequence

from levada.controller.config_changes import Change, ConfigOperation, check_operations
from levada.model.errors import InvalidConfig, InvalidRequest

logger = logging.getLogger(__name__)

ROOT = "root"
LEVELS = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def levels() -> dict[str, str]:
    """The level that counts for each logger, its own or that of the nearest one above it."""
    return {name: _level_name(one.getEffectiveLevel()) for name, one in sorted(_loggers().items())}


def change_levels(operations: Sequence[Change], *, validate_only: bool) -> None:
    """Set or delete levels, all of them or none; they last as long as this process does."""
    check_operations(operations)
    known = _loggers()
    for name, operation, level in operations:
        _check(name, operation, level, known)
    if validate_only:
        return
    for name, operation, level in operations:
        known[name].setLevel(logging.NOTSET if operation == ConfigOperation.DELETE else LEVELS[level or ""])
        logger.info("logger=%s level=%s", name, _level_name(known[name].getEffectiveLevel()))


def _loggers() -> dict[str, logging.Logger]:
    # A placeholder stands where only loggers below a name were asked for.
    made = logging.root.manager.loggerDict.items()
    return {ROOT: logging.root, **{name: one for name, one in made if isinstance(one, logging.Logger)}}


def _check(name: str, operation: int, level: str | None, known: dict[str, logging.Logger]) -> None:
    if operation in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise InvalidRequest(
            f"{ConfigOperation(operation).name} operation is not allowed for the BROKER_LOGGER resource"
        )
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise InvalidRequest(f"Unknown operations type {operation}")
    if name not in known:
        raise InvalidConfig(f"Logger {name} does not exist!")
    if operation == ConfigOperation.DELETE and name == ROOT:
        raise InvalidRequest("Removing the log level of the root logger is not allowed")
    if operation == ConfigOperation.SET and level not in LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )


def _level_name(number: int) -> str:
    return next((name for name, least in LEVELS.items() if number <= least), "FATAL")
