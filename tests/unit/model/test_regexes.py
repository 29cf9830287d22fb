"""Regular expressions of clients, within bounds."""

import pytest

from levada.model import regexes
from levada.model.regexes import MAX_LENGTH, InvalidRegex, compiled


def test_an_expression_is_compiled_once_whether_it_is_one_or_not() -> None:
    regexes._outcome.cache_clear()
    for _ in range(50):
        assert compiled("orders-[0-9]+").fullmatch("orders-17")
        with pytest.raises(InvalidRegex, match="missing"):
            compiled("orders-[0-9")
    assert regexes._outcome.cache_info().misses == 2


@pytest.mark.parametrize("pattern", ["a" * (MAX_LENGTH + 1), r"(\pL{1,50}){20}"], ids=["long", "large"])
def test_an_expression_that_is_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidRegex, match="too large"):
        compiled(pattern)


def test_an_error_keeps_nothing_of_who_has_met_it_before() -> None:
    errors = []
    for _ in range(3):
        try:
            compiled("(")
        except InvalidRegex as error:
            errors.append(error)
    assert len({id(error) for error in errors}) == 3
