"""A mistyped name is answered with the one that was meant, and with none where no name is near."""

import pytest

from levada.model import near_names
from levada.model.near_names import did_you_mean, nearest
from levada.model.topic_keys import TOPIC_KEYS

TOPIC_NAMES = [key.name for key in TOPIC_KEYS]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("retention.msx", "retention.ms"),
        ("retentoin.ms", "retention.ms"),
        ("retention", "retention.ms"),
        ("cleanup", "cleanup.policy"),
        ("message.timestamp", "message.timestamp.type"),
    ],
)
def test_a_name_with_a_typo_and_the_beginning_of_one_are_near(name: str, meant: str) -> None:
    assert nearest(name, TOPIC_NAMES) == meant
    assert did_you_mean(name, TOPIC_NAMES) == f"; did you mean {meant}?"


@pytest.mark.parametrize("name", ["bananas", "partitions", "foo", "x", "", "totally.wrong.key", "foo.max.bytes"])
def test_a_name_that_shares_a_word_at_most_is_near_to_none(name: str) -> None:
    assert nearest(name, TOPIC_NAMES) is None
    assert did_you_mean(name, TOPIC_NAMES) == ""


def test_a_name_far_longer_than_all_is_compared_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_names, "get_close_matches", None)
    assert nearest("retention.ms" * 100, TOPIC_NAMES) is None


def test_one_letter_of_a_short_name_may_be_wrong() -> None:
    assert nearest("kee", ["key", "topic"]) == "key"
