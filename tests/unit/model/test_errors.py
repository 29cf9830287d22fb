"""Errors and their texts."""

from levada.model.error_codes import ErrorCode
from levada.model.errors import MAX_TEXT_LENGTH, InvalidTopic, RecordsRefused


def test_the_text_of_an_error_is_what_was_said() -> None:
    assert str(InvalidTopic("no such name")) == "no such name"
    assert str(InvalidTopic()) == ""


def test_a_text_that_quotes_a_client_at_length_is_cut() -> None:
    """An answer of an old version could not carry it, and the client would be left without any."""
    for error in (InvalidTopic("n" * 40_000), RecordsRefused(ErrorCode.INVALID_RECORD, "n" * 40_000, [])):
        assert str(error) == "n" * MAX_TEXT_LENGTH + "..."
