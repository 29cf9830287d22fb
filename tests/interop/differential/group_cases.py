"""Cases about members of classic groups: how they join, are given their part, live and leave."""

from collections.abc import Callable, Iterator
from functools import partial

from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.consumer_protocol import (
    AssignedTopic,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.heartbeat import HeartbeatRequest
from levada.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from levada.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from levada.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.interop.differential.cases import EVERY, AnswerOf, Case, Side, Table, each, since

group_table = partial(Table, is_about_groups=True)

SESSION_MS, REBALANCE_MS = 300_000, 60_000
"""Long enough that no member's session ends while the cases are sent."""
ID_FIRST_SINCE, STATIC_SINCE, MANY_LEAVE_SINCE = 4, 5, 3
JOIN, SYNC, HEARTBEAT, LEAVE = ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP
DESCRIBE = ApiKey.DESCRIBE_GROUPS

SUBSCRIPTION = encode_subscription(ConsumerProtocolSubscription(topics=["members"]), 0)
OTHER = encode_subscription(ConsumerProtocolSubscription(topics=["others"]), 0)
ASSIGNMENT = encode_assignment(
    ConsumerProtocolAssignment(assigned_partitions=[AssignedTopic(topic="members", partitions=[0, 1])]), 0
)
Protocols = tuple[tuple[str, bytes], ...]
RANGE: Protocols = (("range", SUBSCRIPTION),)


def join(
    group: str,
    member: str = "",
    *,
    instance: str | None = None,
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    kind: str = "consumer",
    protocols: Protocols = RANGE,
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name, metadata in protocols],
    )


def sync(
    group: str,
    member: str,
    *assignments: tuple[str, bytes],
    generation: int = 1,
    instance: str | None = None,
    kind: str | None = "consumer",
    protocol: str | None = "range",
) -> SyncGroupRequest:
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member,
        group_instance_id=instance,
        protocol_type=kind,
        protocol_name=protocol,
        assignments=[SyncGroupRequestAssignment(member_id=one, assignment=given) for one, given in assignments],
    )


def heartbeat(group: str, member: str, generation: int = 1, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member, group_instance_id=instance)


def leave(side: Side, group: str, *leaving: tuple[str, str | None]) -> LeaveGroupRequest:
    if side.version < MANY_LEAVE_SINCE:
        return LeaveGroupRequest(group_id=group, member_id=leaving[0][0])
    members = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in leaving]
    return LeaveGroupRequest(group_id=group, members=members)


def described(name: str, group: str, version: int = stable_versions(DESCRIBE)[-1]) -> Case:
    return Case(name, lambda _: DescribeGroupsRequest(groups=[group]), versions=[version], api=DESCRIBE)


def joined(group: str, name: str, version: int, *, protocols: Protocols = RANGE) -> Iterator[Case]:
    """A member that comes into an empty group, in as many steps as its version needs; known by its name then."""
    if version >= ID_FIRST_SINCE:
        yield Case(name, lambda _: join(group, protocols=protocols), versions=[version], api=JOIN)
        yield Case(
            f"{name} with its id",
            lambda side: join(group, side.member(group, name), protocols=protocols),
            versions=[version],
            api=JOIN,
        )
    else:
        yield Case(name, lambda _: join(group, protocols=protocols), versions=[version], api=JOIN)


def at_most(api: ApiKey, version: int) -> list[int]:
    """The version of another API that goes with one of JoinGroup."""
    served = stable_versions(api)
    return [min(max(version, served[0]), served[-1])]


TIMEOUTS = {"negative": -1, "none": 0, "too short": 5_999, "too long": 1_800_001, "absurd": 2**31 - 1}


def _odd(side: Side, what: str, **odd: object) -> JoinGroupRequest:
    return join(f"{what}-{side.version}", **odd)  # type: ignore[arg-type]


JOINING = group_table(
    "JoinGroup",
    JOIN,
    [
        described("no group yet", "members"),
        Case("no group", lambda _: join(""), versions=EVERY),
        Case("unknown member of an unknown group", lambda s: _odd(s, "unknown", member="who"), versions=EVERY),
        Case(
            "unknown member by its instance",
            lambda s: _odd(s, "unknown", member="who", instance="what"),
            versions=since(STATIC_SINCE),
        ),
        *each(TIMEOUTS, lambda s, ms: _odd(s, "session", session_ms=ms), prefix="session ", versions=EVERY),
        *each(
            {"none": 0, "negative": -5, "absurd": 2**31 - 1},
            lambda s, ms: _odd(s, f"rebalance{ms}", rebalance_ms=ms),
            prefix="rebalance time ",
            versions=EVERY,
        ),
        Case("no protocols", lambda s: _odd(s, "none", protocols=()), versions=EVERY),
        Case("no kind", lambda s: _odd(s, "kindless", kind=""), versions=EVERY),
        Case("no kind nor protocols", lambda s: _odd(s, "kindless", kind="", protocols=()), versions=EVERY),
        Case("unnamed protocol", lambda s: _odd(s, "unnamed", protocols=(("", b""),)), versions=EVERY),
        Case("garbage", lambda s: _odd(s, "garbage", protocols=(("range", b"\xff" * 9),)), versions=since(3)),
        Case("another kind", lambda s: _odd(s, "connect", kind="connect", protocols=(("x", b"y"),)), versions=EVERY),
        Case("a protocol twice", lambda s: _odd(s, "twice", protocols=(*RANGE, ("range", OTHER))), versions=since(3)),
        Case("an empty instance", lambda s: _odd(s, "empty", instance=""), versions=since(STATIC_SINCE)),
        *(described(f"what became of {name}", f"{name}-3") for name in ("garbage", "connect", "twice", "none")),
        described("what became of an id that was given", "garbage-9"),
    ],
)


def sync_of(group: str, version: int, member: str) -> Case:
    return Case(
        f"{member} syncs",
        lambda side: sync(group, side.member(group, member), (side.member(group, member), ASSIGNMENT)),
        versions=at_most(SYNC, version),
        api=SYNC,
    )


def _heartbeat_of(group: str, version: int, member: str, name: str, generation: int = 1) -> Case:
    return Case(
        f"{member}'s heartbeat {name}",
        lambda side: heartbeat(group, side.member(group, member), generation),
        versions=at_most(HEARTBEAT, version),
        api=HEARTBEAT,
    )


def _life(version: int) -> Iterator[Case]:
    """Of a group with one member, in one version of everything."""
    group = f"life-{version}"
    yield from joined(group, "one", version)
    yield described("one has joined", group, *at_most(DESCRIBE, version))
    yield _heartbeat_of(group, version, "one", "before its assignment")
    yield Case("one joins again before its assignment", lambda s: join(group, s.member(group, "one")), [version])
    yield sync_of(group, version, "one")
    yield described("one has its part", group, *at_most(DESCRIBE, version))
    yield _heartbeat_of(group, version, "one", "when all is well")
    yield _heartbeat_of(group, version, "one", "of an older generation", 0)
    yield _heartbeat_of(group, version, "one", "of a later generation", 2)
    yield _heartbeat_of(group, version, "one", "of no generation", -1)
    yield sync_of(group, version, "one")
    yield Case("another kind", lambda _: join(group, kind="connect"), [version])
    yield Case("another protocol", lambda _: join(group, protocols=(("sticky", b""),)), [version])
    yield Case("a stranger", lambda _: join(group, "stranger"), [version])
    yield Case("the leader joins again", lambda s: join(group, s.member(group, "one")), [version])
    yield described("the leader has joined again", group)
    yield Case("one leaves", lambda s: leave(s, group, (s.member(group, "one"), None)), at_most(LEAVE, version), LEAVE)
    yield described("one has left", group, *at_most(DESCRIBE, version))
    yield Case("one leaves twice", lambda s: leave(s, group, (s.member(group, "one"), None)), at_most(LEAVE, 9), LEAVE)
    yield _heartbeat_of(group, version, "one", "after it left")


LIFE = group_table("A member's life", JOIN, [*(case for version in stable_versions(JOIN) for case in _life(version))])


_SYNCS: dict[str, Callable[[str], SyncGroupRequest]] = {
    "no group": lambda one: sync("", one, (one, ASSIGNMENT)),
    "unknown group": lambda one: sync("syncs-never", one, (one, ASSIGNMENT)),
    "unknown member": lambda one: sync("syncs", "who", (one, ASSIGNMENT)),
    "no member": lambda one: sync("syncs", "", (one, ASSIGNMENT)),
    "older generation": lambda one: sync("syncs", one, (one, ASSIGNMENT), generation=0),
    "later generation": lambda one: sync("syncs", one, (one, ASSIGNMENT), generation=9),
    "another kind": lambda one: sync("syncs", one, (one, ASSIGNMENT), kind="connect"),
    "another protocol": lambda one: sync("syncs", one, (one, ASSIGNMENT), protocol="sticky"),
    "no kind": lambda one: sync("syncs", one, (one, ASSIGNMENT), kind=None),
    "no protocol": lambda one: sync("syncs", one, (one, ASSIGNMENT), protocol=None),
    "garbage for a stranger": lambda one: sync("syncs", one, ("stranger", b"x"), (one, b"garbage")),
    "again": lambda one: sync("syncs", one, (one, ASSIGNMENT)),
}

SYNCING = group_table(
    "SyncGroup",
    SYNC,
    [
        *joined("syncs", "one", 9),
        Case("unknown instance", lambda s: sync("syncs", s.member("syncs", "one"), instance="what"), versions=since(3)),
        *each(_SYNCS, lambda side, build: build(side.member("syncs", "one")), versions=EVERY),
        described("garbage is kept", "syncs"),
    ],
)

HEARTBEATS = group_table(
    "Heartbeat",
    HEARTBEAT,
    [
        *joined("beats", "one", 9),
        Case("no group", lambda s: heartbeat("", s.member("beats", "one")), versions=EVERY),
        Case("unknown group", lambda _: heartbeat("beats-never", "who"), versions=EVERY),
        Case("unknown member", lambda _: heartbeat("beats", "who"), versions=EVERY),
        Case("no member", lambda _: heartbeat("beats", ""), versions=EVERY),
        Case("negative generation", lambda s: heartbeat("beats", s.member("beats", "one"), -2), versions=EVERY),
        Case("unknown instance", lambda s: heartbeat("beats", s.member("beats", "one"), 1, "what"), versions=since(3)),
    ],
)

LEAVING = group_table(
    "LeaveGroup",
    LEAVE,
    [
        *joined("leaves", "one", 9),
        Case("no group", lambda s: leave(s, "", ("who", None)), versions=EVERY),
        Case("unknown group", lambda s: leave(s, "leaves-never", ("who", None)), versions=EVERY),
        Case("unknown member", lambda s: leave(s, "leaves", ("who", None)), versions=EVERY),
        Case("no member", lambda s: leave(s, "leaves"), versions=since(MANY_LEAVE_SINCE)),
        Case("no member", lambda s: leave(s, "leaves", ("", None)), versions=EVERY),
        Case("unknown instance", lambda s: leave(s, "leaves", ("", "what")), versions=since(MANY_LEAVE_SINCE)),
        Case(
            "member of another instance",
            lambda s: leave(s, "leaves", (s.member("leaves", "one"), "what")),
            versions=since(MANY_LEAVE_SINCE),
        ),
        Case(
            "one that is there and others",
            lambda s: leave(s, "leaves", ("who", None), (s.member("leaves", "one"), None), ("", "what")),
            versions=[5],
        ),
        Case("an id that was given", lambda _: join("pending"), versions=[9], api=JOIN),
        Case(
            "an id that was given leaves",
            lambda s: leave(s, "pending", (s.member("pending", "an id that was given"), None)),
            versions=[5],
        ),
        described("no member is left", "leaves"),
        described("no member ever joined", "pending"),
    ],
)


def _both(version: int) -> Iterator[Case]:
    """A second member comes, both have their part, the first leaves."""
    group, syncs = f"both-{version}", at_most(SYNC, version)
    two = "two" if version >= ID_FIRST_SINCE else "two waits"
    yield from joined(group, "one", version)
    yield sync_of(group, version, "one")
    if version >= ID_FIRST_SINCE:
        yield Case("two", lambda _: join(group), [version])
        yield described("two has an id", group)
        yield Case("two waits", lambda s: join(group, s.member(group, "two")), [version], is_parked=True)
    else:
        yield Case("two waits", lambda _: join(group), [version], is_parked=True)
    yield described("two is waited for", group)
    yield _heartbeat_of(group, version, "one", "while the group rebalances")
    yield sync_of(group, version, "one")
    yield Case("one joins again", lambda s: join(group, s.member(group, "one")), [version])
    yield Case("two has joined", lambda _: AnswerOf("two waits"), [version])
    yield _heartbeat_of(group, version, two, "before the assignment", 2)
    yield Case("two syncs", lambda s: sync(group, s.member(group, two), generation=2), syncs, SYNC, is_parked=True)
    yield Case(
        "one assigns",
        lambda s: sync(
            group,
            s.member(group, "one"),
            (s.member(group, "one"), b"first"),
            (s.member(group, two), b"second"),
            generation=2,
        ),
        syncs,
        SYNC,
    )
    yield Case("two has its part", lambda _: AnswerOf("two syncs"), syncs, SYNC)
    yield described("both have their part", group)
    yield Case("two joins again", lambda s: join(group, s.member(group, two)), [version])
    yield Case("one leaves", lambda s: leave(s, group, (s.member(group, "one"), None)), [5], LEAVE)
    yield described("one has left", group)
    yield _heartbeat_of(group, version, two, "after one left", 2)
    yield Case("two leads", lambda s: join(group, s.member(group, two)), [version])


BOTH = group_table("Two members", JOIN, [case for version in stable_versions(JOIN) for case in _both(version)])


def _static(version: int) -> Iterator[Case]:
    group, home = f"static-{version}", "home"
    syncs = at_most(SYNC, version)

    def old(side: Side) -> str:
        return side.member(group, "settled")

    yield Case("settled", lambda _: join(group, instance=home), [version])
    yield Case("assigned", lambda s: sync(group, old(s), (old(s), ASSIGNMENT), instance=home), syncs, SYNC)
    yield Case("heartbeat", lambda s: heartbeat(group, old(s), 1, home), [4], HEARTBEAT)
    yield Case("heartbeat without its instance", lambda s: heartbeat(group, old(s)), [4], HEARTBEAT)
    yield described("settled and assigned", group)
    yield Case("returned", lambda _: join(group, instance=home), [version])
    yield described("returned to its place", group)
    yield Case("fenced heartbeat", lambda s: heartbeat(group, old(s), 1, home), [4], HEARTBEAT)
    yield Case("fenced sync", lambda s: sync(group, old(s), instance=home), syncs, SYNC)
    yield Case("fenced join", lambda s: join(group, old(s), instance=home), [version])
    yield Case("fenced leave", lambda s: leave(s, group, (old(s), home)), [5], LEAVE)
    yield Case("old id, no instance", lambda s: heartbeat(group, old(s)), [4], HEARTBEAT)
    yield Case("new heartbeat", lambda s: heartbeat(group, s.member(group, "returned"), 1, home), [4], HEARTBEAT)
    yield Case("another protocol", lambda _: join(group, instance=home, protocols=(("sticky", b""),)), [version])
    yield Case("put out", lambda s: leave(s, group, ("", home)), [5], LEAVE)
    yield described("no member is left", group)


STATIC = group_table(
    "Static members",
    JOIN,
    [
        *(case for version in since(STATIC_SINCE) if version in stable_versions(JOIN) for case in _static(version)),
    ],
)

TABLES = (JOINING, LIFE, SYNCING, HEARTBEATS, LEAVING, BOTH, STATIC)
