"""Levels of loggers that are told and changed over the wire."""

import logging
from collections.abc import Iterator

import pytest

from levada.broker.loggers import change_levels, levels
from levada.model.errors import InvalidConfig, InvalidRequest

SET, DELETE, APPEND = range(3)
NAME = "levada.test.loggers"


@pytest.fixture(autouse=True)
def child() -> Iterator[logging.Logger]:
    made, root_level = logging.getLogger(NAME), logging.root.level
    yield made
    made.setLevel(logging.NOTSET)
    logging.root.setLevel(root_level)


def test_a_level_is_set_and_left_to_the_logger_above_again(child: logging.Logger) -> None:
    change_levels([("root", SET, "WARN")], validate_only=False)
    assert levels()[NAME] == "WARN"
    change_levels([(NAME, SET, "DEBUG")], validate_only=False)
    assert (child.level, levels()[NAME]) == (logging.DEBUG, "DEBUG")
    change_levels([(NAME, DELETE, None)], validate_only=False)
    assert (child.level, levels()[NAME]) == (logging.NOTSET, "WARN")


@pytest.mark.parametrize(
    ("level", "number"), [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)]
)
def test_kafkas_levels_have_their_place_among_pythons(child: logging.Logger, level: str, number: int) -> None:
    change_levels([(NAME, SET, level)], validate_only=False)
    assert (child.level, levels()[NAME]) == (number, level)


def test_a_level_between_two_is_told_by_what_it_lets_pass(child: logging.Logger) -> None:
    child.setLevel(25)
    assert levels()[NAME] == "WARN"
    child.setLevel(99)
    assert levels()[NAME] == "FATAL"


def test_all_levels_change_or_none(child: logging.Logger) -> None:
    with pytest.raises(InvalidConfig, match=r"Logger no\.such does not exist!"):
        change_levels([(NAME, SET, "ERROR"), ("no.such", SET, "INFO")], validate_only=False)
    change_levels([(NAME, SET, "ERROR")], validate_only=True)
    assert child.level == logging.NOTSET


def test_what_is_no_logger_of_its_own_is_not_told() -> None:
    logging.getLogger("levada.test.only.below")
    assert "levada.test.only" not in levels()


@pytest.mark.parametrize(
    ("name", "operation", "level", "error", "text"),
    [
        (NAME, SET, "info", InvalidConfig, f"Cannot set the log level of {NAME} to info as it is not a supported"),
        (NAME, SET, None, InvalidRequest, f"Null value not supported for : {NAME}"),
        (NAME, APPEND, "INFO", InvalidRequest, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (NAME, 9, "INFO", InvalidRequest, "Unknown operations type 9"),
        ("root", DELETE, None, InvalidRequest, "Removing the log level of the root logger is not allowed"),
    ],
)
def test_a_level_is_refused(name: str, operation: int, level: str | None, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        change_levels([(name, operation, level)], validate_only=False)
