"""Topics by regular expression, which the coordinator matches."""

import pytest

from levada.groups.consumer import ConsumerGroupSettings, Interval, regexes
from levada.groups.consumer.group_records import group_tombstones
from levada.groups.consumer.regexes import Resolution
from levada.model.error_codes import ErrorCode
from tests.unit.groups.consumer.harness import GROUP, Coordinator

REFRESH_MS = 600_000


@pytest.fixture
def coordinator() -> Coordinator:
    coordinator = Coordinator(ConsumerGroupSettings(assignment_interval=Interval(0, 0, 15_000)))
    for name in ("x1", "x2", "y1"):
        coordinator.topic(name, 1)
    return coordinator


def join(coordinator: Coordinator, regex: str, member_id: str = "m") -> None:
    reply = coordinator.beat(member_id, 0, subscribed_topic_names=None, subscribed_topic_regex=regex)
    assert reply.error_code == ErrorCode.NONE, reply


def topics_of(coordinator: Coordinator, regex: str) -> tuple[str, ...]:
    return coordinator.group.resolved[regex].topics


def test_a_member_gets_the_topics_that_match_as_a_whole(coordinator: Coordinator) -> None:
    join(coordinator, "x.|1")
    assert topics_of(coordinator, "x.|1") == ("x1", "x2")
    assert coordinator.group.epoch == 2
    assert coordinator.assigned(coordinator.beat("m", 1)) == {"x1": [0], "x2": [0]}


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        ("[a", "missing closing ]"),
        ("(a", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("*a", "missing argument to repetition operator"),
        ("a**", "invalid nested repetition operator"),
        ("a{2,1}", "invalid repeat count"),
        ("a{1001}", "invalid repeat count"),
        ("a\\", "trailing backslash at end of expression"),
        ("(?=a)", "invalid or unsupported Perl syntax"),
        ("(?P<n", "invalid named capture"),
        ("[z-a]", "invalid character class range"),
        ("\\8", "invalid escape sequence"),
    ],
)
def test_a_wrong_expression_is_refused_in_apaches_words(coordinator: Coordinator, regex: str, why: str) -> None:
    reply = coordinator.beat("m", 0, subscribed_topic_names=None, subscribed_topic_regex=regex)
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert reply.error_message == f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."
    assert not coordinator.groups.groups


def test_expressions_and_names_go_together(coordinator: Coordinator) -> None:
    coordinator.beat("m", 0, "y1", subscribed_topic_regex="x1")
    assert coordinator.assigned(coordinator.beat("m", 2)) == {"x1": [0], "y1": [0]}


def test_an_expression_that_is_known_already_counts_at_once(coordinator: Coordinator) -> None:
    join(coordinator, "x.*")
    coordinator.beat("m", 1)
    reply = coordinator.beat("n", 0, subscribed_topic_names=None, subscribed_topic_regex="x.*")
    assert reply.member_epoch == 3
    assert coordinator.group.targets["n"] == {coordinator.topic_id("x2"): (0,)}


def test_one_that_no_member_uses_any_more_is_forgotten(coordinator: Coordinator) -> None:
    join(coordinator, "x.*")
    join(coordinator, "x.*", "n")
    coordinator.beat("m", 0, "y1", subscribed_topic_regex="")
    assert list(coordinator.group.resolved) == ["x.*"]
    coordinator.beat("n", -1)
    assert not coordinator.group.resolved
    assert not coordinator.group.is_subscribed("x1")


def test_topics_that_come_are_found_but_not_more_often_than_every_ten_seconds(coordinator: Coordinator) -> None:
    join(coordinator, "x.*")
    coordinator.beat("m", 1)
    coordinator.advance(5_000)
    coordinator.topic("x3", 1)
    coordinator.beat("m", 2)
    assert topics_of(coordinator, "x.*") == ("x1", "x2")
    coordinator.advance(5_001)
    coordinator.beat("m", 2)
    assert topics_of(coordinator, "x.*") == ("x1", "x2", "x3")
    assert coordinator.assigned(coordinator.beat("m", 2)) == {"x1": [0], "x2": [0], "x3": [0]}


def test_topics_are_found_also_when_the_clock_was_set_back(coordinator: Coordinator) -> None:
    join(coordinator, "x.*")
    coordinator.beat("m", 1)
    coordinator.now_ms -= 3_600_000
    coordinator.restart()
    coordinator.topic("x3", 1)
    coordinator.beat("m", 2)
    assert topics_of(coordinator, "x.*") == ("x1", "x2", "x3")
    assert coordinator.group.resolved["x.*"].timestamp_ms == coordinator.now_ms


def test_all_is_looked_at_again_from_time_to_time(coordinator: Coordinator) -> None:
    join(coordinator, "x.*")
    coordinator.beat("m", 1)
    for _ in range(REFRESH_MS // 5_000):
        coordinator.advance(5_000)
        coordinator.beat("m", coordinator.group.members["m"].epoch)
    before_ms = coordinator.group.resolved["x.*"].timestamp_ms
    coordinator.advance(5_000)
    coordinator.beat("m", 2)
    assert coordinator.group.resolved["x.*"].timestamp_ms == coordinator.now_ms > before_ms
    assert coordinator.group.epoch == 2


def test_matching_that_finds_the_same_gives_no_new_epoch(coordinator: Coordinator) -> None:
    join(coordinator, "x.*")
    coordinator.beat("m", 1)
    coordinator.topic("y2", 1)
    coordinator.advance(10_001)
    coordinator.beat("m", 2)
    assert coordinator.group.resolved["x.*"].version == coordinator.image.offset
    assert coordinator.group.epoch == 2


def test_many_names_are_matched_bit_by_bit(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexes, "WORK_PER_STEP", 1)
    join(coordinator, "x.*")
    assert not coordinator.group.resolved
    coordinator.advance(10)
    assert topics_of(coordinator, "x.*") == ("x1", "x2")


def test_a_group_that_goes_while_its_topics_are_matched_leaves_nothing(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regexes, "WORK_PER_STEP", 1)
    join(coordinator, "x.*")
    coordinator.write(group_tombstones(coordinator.group))
    coordinator.advance(10)
    assert GROUP not in coordinator.groups.groups
    assert not coordinator.groups._context.resolutions


def test_what_is_matched_for_members_that_have_left_is_dropped(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regexes, "WORK_PER_STEP", 1)
    join(coordinator, "x.*")
    coordinator.beat("m", -1)
    coordinator.advance(10)
    assert not coordinator.group.resolved


def test_a_hostile_expression_costs_little_or_is_refused(coordinator: Coordinator) -> None:
    names = Resolution.of(["(x+x+)+y", ".*.*.*.*=.*", "[" * 1], coordinator.image)
    assert names.step()
    assert names.matched == {"(x+x+)+y": [], ".*.*.*.*=.*": [], "[": []}
    huge = "|".join(f"[a-z]{{{count}}}" for count in range(900, 960))
    reply = coordinator.beat("m", 0, subscribed_topic_names=None, subscribed_topic_regex=huge)
    assert reply.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert reply.error_message is not None
    assert reply.error_message.endswith("pattern too large - compile failed.")
