"""Topics by regular expressions that the broker looks after, in RE2's syntax and time (KIP-848)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from levada.groups.consumer.group import ConsumerGroup, ResolvedRegex
from levada.groups.consumer.member import ConsumerGroupMember
from levada.groups.consumer.refusals import Refusal
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.model.regexes import InvalidRegex, Regex, compiled

MIN_REFRESH_INTERVAL_MS = 10_000
"""However fast members and topics come, a group's expressions are not matched again before."""

WORK_PER_STEP = 100_000
"""Names times the size of the expressions that are matched with them in one go."""

APACHE_WORDS = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "regexp/syntax: internal error",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}
"""What RE2 for Java says where RE2 says something else."""


def check_syntax(regex: str) -> None:
    fault = syntax_fault(regex)
    if fault is not None:
        raise Refusal(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {fault}.",
        )


def syntax_fault(regex: str) -> str | None:
    """What is wrong with an expression, as RE2 for Java says it."""
    try:
        compiled(regex)
    except InvalidRegex as error:
        what, _, _ = str(error).partition(": ")
        return APACHE_WORDS.get(what, what)
    return None


@dataclass(slots=True)
class Resolution:
    """Expressions on their way through all topic names, a bounded number of steps at a time."""

    image: Image
    matched: dict[str, list[str]]
    _patterns: list[tuple[str, Regex]] = field(default_factory=list)
    _names: Iterator[str] = field(default_factory=lambda: iter(()))

    @classmethod
    def of(cls, regexes: Iterable[str], image: Image) -> "Resolution":
        resolution = cls(image, {regex: [] for regex in regexes}, _names=iter(sorted(image.topics)))
        for regex in resolution.matched:
            try:
                resolution._patterns.append((regex, compiled(regex)))
            except InvalidRegex:
                # Another release, with another RE2, has let it in; it matches nothing, as in Apache.
                continue
        return resolution

    def step(self) -> bool:
        """Match some names; whether all are through."""
        size = sum(pattern.programsize for _, pattern in self._patterns)
        for _ in range(max(WORK_PER_STEP // max(size, 1), 1)):
            name = next(self._names, None)
            if name is None:
                return True
            encoded = name.encode()
            for regex, pattern in self._patterns:
                if pattern.fullmatch(encoded) is not None:
                    self.matched[regex].append(name)
        return False

    def results(self, now_ms: int) -> dict[str, ResolvedRegex]:
        version = self.image.offset
        return {regex: ResolvedRegex(tuple(names), version, now_ms) for regex, names in self.matched.items()}


def needs_refresh(
    group: ConsumerGroup,
    old: ConsumerGroupMember,
    new: ConsumerGroupMember,
    *,
    now_ms: int,
    new_topics_at: int,
    interval_ms: int,
) -> bool:
    """Whether the group's expressions are to be matched with the topics again, when `new` takes the place of `old`."""
    regex = new.topic_regex
    has_new_regex = bool(regex) and regex != old.topic_regex and not group.regexes[regex or ""]
    if not has_new_regex and not len(group.regexes):
        return False
    last = next(iter(group.resolved.values()), None)
    # Where the clock was set back the last time lies ahead, and it is unknown how long ago it was.
    if last is not None and last.timestamp_ms <= now_ms <= last.timestamp_ms + MIN_REFRESH_INTERVAL_MS:
        return False
    count = _count_after(group, old, new)
    is_due = (
        has_new_regex
        or count != len(group.resolved)
        or last is None
        or last.version < new_topics_at
        or not last.timestamp_ms <= now_ms <= last.timestamp_ms + interval_ms
    )
    return is_due and count > 0


def _count_after(group: ConsumerGroup, old: ConsumerGroupMember, new: ConsumerGroupMember) -> int:
    regexes = group.regexes.copy()
    if old.topic_regex:
        regexes.remove((old.topic_regex,))
    if new.topic_regex:
        regexes.add((new.topic_regex,))
    return len(regexes)
