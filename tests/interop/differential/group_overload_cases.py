"""Cases about groups that have more to remember than fits into a batch of `__consumer_offsets`."""

from collections.abc import Iterator

from levada.protocol.api import ApiKey
from levada.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from levada.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from levada.protocol.messages.sync_group import SyncGroupRequest
from tests.interop.differential.cases import Case, Side
from tests.interop.differential.group_cases import (
    ASSIGNMENT,
    HEARTBEAT,
    JOIN,
    LEAVE,
    SYNC,
    at_most,
    described,
    group_table,
    heartbeat,
    join,
    joined,
    leave,
    sync,
    sync_of,
)

TOO_LARGE = bytes(1_200_000)
"""More than a batch in that topic may have."""


def _assigning(side: Side, group: str, assignment: bytes, generation: int = 1) -> SyncGroupRequest:
    one = side.member(group, "one")
    return sync(group, one, (one, assignment), generation=generation)


def _assignment(version: int) -> Iterator[Case]:
    """The leader assigns more than can be written down, and then less."""
    group, syncs = f"overloaded-{version}", at_most(SYNC, version)
    yield from joined(group, "one", version)
    yield Case("one assigns too much", lambda s: _assigning(s, group, TOO_LARGE), syncs, SYNC)
    yield described("nothing is assigned", group)
    yield Case("one's heartbeat", lambda s: heartbeat(group, s.member(group, "one")), [4], HEARTBEAT)
    yield Case("one assigns again", lambda s: _assigning(s, group, ASSIGNMENT), syncs, SYNC)
    yield Case("one joins again", lambda s: join(group, s.member(group, "one")), [version])
    yield Case("one assigns what fits", lambda s: _assigning(s, group, ASSIGNMENT, 2), syncs, SYNC)
    yield described("that is assigned", group)
    yield Case("one leaves", lambda s: leave(s, group, (s.member(group, "one"), None)), [5], LEAVE)
    yield described("no member is left", group)


def _subscription() -> Iterator[Case]:
    group = "overloaded-subscription"
    yield from joined(group, "one", 9, protocols=(("range", TOO_LARGE),))
    yield sync_of(group, 9, "one")
    yield described("nothing is assigned", group)


def _static_member() -> Iterator[Case]:
    """A static member starts again and has more to say than before."""
    group, home = "overloaded-static", "home"
    yield Case("settled", lambda _: join(group, instance=home), [9])
    yield Case(
        "assigned",
        lambda s: sync(group, s.member(group, "settled"), (s.member(group, "settled"), ASSIGNMENT), instance=home),
        [5],
        SYNC,
    )
    yield Case("returned", lambda _: join(group, instance=home, protocols=(("range", TOO_LARGE),)), [9])
    yield described("what became of it", group)
    yield Case("old heartbeat", lambda s: heartbeat(group, s.member(group, "settled"), 1, home), [4], HEARTBEAT)


BEAT, SHOW = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE
GROUP = "overloaded-consumers"
MEMBER = "6d656d626572206f6620746865"
"""Since version 1 members choose their ids."""

FIRST_EPOCH = 2
"""Of a member that comes into a new group."""


def _beat(epoch: int, *topics: str, group: str = GROUP) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=MEMBER,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics),
        topic_partitions=[],
    )


def _show(group: str) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=[group], include_authorized_operations=False)


def _consumers() -> Iterator[Case]:
    """Members of groups that the broker assigns subscribe to more than can be written down."""
    too_many = [f"{number:0249d}" for number in range(5_000)]
    new = "overloaded-consumers-new"
    yield Case("subscribed", lambda _: _beat(0, "overloaded"), [1], BEAT)
    yield Case("subscribed to too many", lambda _: _beat(FIRST_EPOCH, *too_many), [1], BEAT)
    yield Case("new and subscribed to too many", lambda _: _beat(0, *too_many, group=new), [1], BEAT)
    # Not asked for the other group: Apache's lists its member twice after the failed write.
    yield Case("what became of the new", lambda _: _show(new), [1], SHOW)
    yield Case("subscribed to few again", lambda _: _beat(FIRST_EPOCH, "overloaded", "other"), [1], BEAT)
    yield Case("what it has", lambda _: _show(GROUP), [1], SHOW)
    yield Case("left", lambda _: _beat(-1), [1], BEAT)


OVERLOADED = group_table(
    "More than fits",
    JOIN,
    [
        *(case for version in (4, 9) for case in _assignment(version)),
        *_subscription(),
        *_static_member(),
        *_consumers(),
    ],
    topics={"overloaded": {}},
)

TABLES = (OVERLOADED,)
