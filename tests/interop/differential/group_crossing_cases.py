"""Cases in which requests of members of a group cross each other: one that waits is answered for another reason."""

from collections.abc import Iterator

from tests.interop.differential.cases import AnswerOf, Case, Side
from tests.interop.differential.group_cases import (
    ASSIGNMENT,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SUBSCRIPTION,
    SYNC,
    described,
    group_table,
    heartbeat,
    join,
    joined,
    leave,
    sync,
    sync_of,
)

BOTH = (("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION))


def _leaving_while_joining() -> Iterator[Case]:
    group = "crossing-leave"
    yield from joined(group, "one", 9)
    yield sync_of(group, 9, "one")
    yield Case("two", lambda _: join(group), [9])
    yield Case("two waits", lambda s: join(group, s.member(group, "two")), [9], is_parked=True)
    yield Case("two leaves", lambda s: leave(s, group, (s.member(group, "two"), None)), [5], LEAVE)
    yield Case("what two hears", lambda _: AnswerOf("two waits"), [9])
    yield described("one is alone again", group)
    yield Case("one goes on", lambda s: join(group, s.member(group, "one")), [9])


def _pair(group: str) -> Iterator[Case]:
    """Two members in a generation that waits for its assignment."""
    yield from joined(group, "one", 9, protocols=BOTH)
    yield sync_of(group, 9, "one")
    yield Case("two", lambda _: join(group, protocols=BOTH), [9])
    yield Case("two waits", lambda s: join(group, s.member(group, "two"), protocols=BOTH), [9], is_parked=True)
    yield Case("one joins again", lambda s: join(group, s.member(group, "one"), protocols=BOTH), [9])
    yield Case("two has joined", lambda _: AnswerOf("two waits"), [9])
    yield Case("two syncs", lambda s: sync(group, s.member(group, "two"), generation=2), [5], SYNC, is_parked=True)


def _leader_leaving_before_it_assigns() -> Iterator[Case]:
    group = "crossing-leader"
    yield from _pair(group)
    yield Case("one leaves", lambda s: leave(s, group, (s.member(group, "one"), None)), [5], LEAVE)
    yield Case("what two hears", lambda _: AnswerOf("two syncs"), [5], SYNC)
    yield described("two is left", group)


def _change_of_protocols_before_the_assignment() -> Iterator[Case]:
    group, sticky = "crossing-change", BOTH[1:]

    def one(side: Side) -> str:
        return side.member(group, "one")

    yield from _pair(group)
    yield Case("one joins again, the same", lambda s: join(group, one(s), protocols=BOTH), [9])
    yield Case("one waits", lambda s: join(group, one(s), protocols=sticky), [9], is_parked=True)
    yield Case("what two hears", lambda _: AnswerOf("two syncs"), [5], SYNC)
    yield Case("one assigns too late", lambda s: sync(group, one(s), (one(s), ASSIGNMENT), generation=2), [5], SYNC)
    yield Case("two joins again", lambda s: join(group, s.member(group, "two"), protocols=BOTH), [9])
    yield Case("one has joined", lambda _: AnswerOf("one waits"), [9])
    yield described("the protocol that both know", group)


def _static_that_returns_while_it_is_waited_for() -> Iterator[Case]:
    group = "crossing-static"
    yield from joined(group, "one", 9)
    yield sync_of(group, 9, "one")
    yield Case("home waits", lambda _: join(group, instance="home"), [9], is_parked=True)
    yield Case("home returns", lambda _: join(group, instance="home"), [9], is_parked=True)
    yield Case("what the first hears", lambda _: AnswerOf("home waits"), [9])
    yield described("home is there once", group)
    yield Case("one joins again", lambda s: join(group, s.member(group, "one")), [9])
    yield Case("home has joined", lambda _: AnswerOf("home returns"), [9])
    yield Case(
        "home syncs",
        lambda s: sync(group, s.member(group, "home returns"), generation=2, instance="home"),
        [5],
        SYNC,
        is_parked=True,
    )
    yield Case("home returns again", lambda _: join(group, instance="home"), [9], is_parked=True)
    yield Case("what it heard instead", lambda _: AnswerOf("home syncs"), [5], SYNC)
    yield Case("one's heartbeat", lambda s: heartbeat(group, s.member(group, "one"), 2), [4], HEARTBEAT)


def _static_leader_that_returns(version: int) -> Iterator[Case]:
    """A stable group whose leader starts again hears nothing of it; what the leader hears depends on its version."""
    group = f"crossing-lead-{version}"

    def head(side: Side) -> str:
        return side.member(group, "head")

    yield Case("head", lambda _: join(group, instance="head"), [version])
    yield Case("head assigns", lambda s: sync(group, head(s), (head(s), b"all"), instance="head"), [5], SYNC)
    yield Case("hand waits", lambda _: join(group, instance="hand"), [version], is_parked=True)
    yield Case("head joins again", lambda s: join(group, head(s), instance="head"), [version])
    yield Case("hand has joined", lambda _: AnswerOf("hand waits"), [version])
    yield Case(
        "head assigns both",
        lambda s: sync(
            group,
            head(s),
            (head(s), b"half"),
            (s.member(group, "hand waits"), b"other half"),
            generation=2,
            instance="head",
        ),
        [5],
        SYNC,
    )
    yield Case("head returns", lambda _: join(group, instance="head"), [version])
    yield described("head is back", group)
    yield Case(
        "head has its part",
        lambda s: sync(group, s.member(group, "head returns"), generation=2, instance="head"),
        [5],
        SYNC,
    )
    yield Case("hand returns", lambda _: join(group, instance="hand"), [version])
    yield Case("hand returns with more", lambda _: join(group, instance="hand", protocols=BOTH), [version])
    yield described("nothing has changed", group)


CROSSING = group_table(
    "Crossing requests of members",
    JOIN,
    [
        *_leaving_while_joining(),
        *_leader_leaving_before_it_assigns(),
        *_change_of_protocols_before_the_assignment(),
        *_static_that_returns_while_it_is_waited_for(),
        *(case for version in (5, 8, 9) for case in _static_leader_that_returns(version)),
    ],
)

TABLES = (CROSSING,)
