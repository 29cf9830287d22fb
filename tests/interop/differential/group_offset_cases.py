"""Cases about what groups keep, their offsets, and about what administrators see and delete of groups."""

from collections.abc import Callable, Iterator

from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.delete_groups import DeleteGroupsRequest
from levada.protocol.messages.describe_groups import DescribeGroupsRequest
from levada.protocol.messages.list_groups import ListGroupsRequest
from levada.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from levada.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from levada.protocol.messages.offset_fetch import (
    MANY_GROUPS_SINCE,
    TOPIC_IDS_SINCE,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.interop.differential.cases import EVERY, UNKNOWN_ID, Case, Side, each, since, until
from tests.interop.differential.group_cases import (
    ASSIGNMENT,
    JOIN,
    SYNC,
    described,
    group_table,
    join,
    joined,
    leave,
    sync,
)

COMMIT, FETCH, DELETE = ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.OFFSET_DELETE

Where = tuple[str, int]
"""A topic and one of its partitions."""


def topic_id(side: Side, topic: str) -> bytes:
    return UNKNOWN_ID if topic.endswith("never") else side.topic_id(topic)


def commit(
    side: Side,
    group: str,
    *where: Where,
    offset: int = 7,
    metadata: str | None = "note",
    epoch: int = -1,
    member: str = "",
    generation: int = -1,
    instance: str | None = None,
    retention_ms: int = -1,
) -> OffsetCommitRequest:
    by_id = side.version >= TOPIC_IDS_SINCE
    topics = [
        OffsetCommitRequestTopic(
            name="" if by_id else topic,
            topic_id=topic_id(side, topic) if by_id else bytes(16),
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_leader_epoch=epoch,
                    committed_metadata=metadata,
                )
                for name, index in where
                if name == topic
            ],
        )
        for topic in dict.fromkeys(name for name, _ in where)
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        group_instance_id=instance,
        retention_time_ms=retention_ms,
        topics=topics,
    )


def fetched(
    side: Side, group: str, *where: Where, every: bool = False, member: str | None = None, epoch: int = -1
) -> OffsetFetchRequest:
    """What is committed for some partitions, or for all."""
    if side.version < MANY_GROUPS_SINCE:
        asked = [OffsetFetchRequestTopic(name=topic, partition_indexes=[index]) for topic, index in where]
        return OffsetFetchRequest(group_id=group, topics=None if every else asked)
    by_id = side.version >= TOPIC_IDS_SINCE
    topics = [
        OffsetFetchRequestTopics(
            name="" if by_id else topic,
            topic_id=topic_id(side, topic) if by_id else bytes(16),
            partition_indexes=[index],
        )
        for topic, index in where
    ]
    one = OffsetFetchRequestGroup(
        group_id=group, member_id=member, member_epoch=epoch, topics=None if every else topics
    )
    return OffsetFetchRequest(groups=[one])


def _committed(name: str, group: str) -> Case:
    return Case(name, lambda s: fetched(s, group, every=True), versions=[9], api=FETCH)


LAST_KEPT = "x" * 4_096
KEPT = ("held", 0)

_OUTSIDE: dict[str, Callable[[Side], OffsetCommitRequest]] = {
    "to an unknown group": lambda s: commit(s, f"new-{s.version}", KEPT),
    "again": lambda s: commit(s, f"new-{s.version}", KEPT, offset=8, metadata=None),
    "without a group": lambda s: commit(s, "", KEPT),
    "of an unknown partition": lambda s: commit(s, "outside", ("held", 9)),
    "of a negative partition": lambda s: commit(s, "outside", ("held", -1)),
    "of an unknown topic": lambda s: commit(s, "outside", ("held-never", 0)),
    "of known and unknown": lambda s: commit(s, "outside", KEPT, ("held", 9), ("held-never", 0)),
    "of nothing": lambda s: commit(s, "outside"),
    "of a partition twice": lambda s: commit(s, f"twice-{s.version}", KEPT, KEPT),
    "of a negative offset": lambda s: commit(s, f"negative-{s.version}", KEPT, offset=-9),
    "of a large offset": lambda s: commit(s, f"large-{s.version}", KEPT, offset=2**63 - 1),
    "of an epoch": lambda s: commit(s, f"epoch-{s.version}", KEPT, epoch=5),
    "with long metadata": lambda s: commit(s, f"long-{s.version}", KEPT, metadata=LAST_KEPT),
    "with too long metadata": lambda s: commit(s, f"long-{s.version}", KEPT, metadata=LAST_KEPT + "x"),
    "with long metadata of few letters": lambda s: commit(s, f"wide-{s.version}", KEPT, metadata="é" * 4_096),
    "of more than a batch may have": lambda s: commit(
        s, f"long-{s.version}", *[KEPT] * 300, offset=9, metadata=LAST_KEPT
    ),
    "with a generation": lambda s: commit(s, f"never-{s.version}", KEPT, generation=3, member="who"),
    "with a generation alone": lambda s: commit(s, f"never-{s.version}", KEPT, generation=0),
    "with a member alone": lambda s: commit(s, f"lone-{s.version}", KEPT, member="who"),
    "with a generation to an empty group": lambda s: commit(s, f"new-{s.version}", KEPT, generation=3, member="who"),
    "with a member to an empty group": lambda s: commit(s, f"new-{s.version}", KEPT, member="who"),
}

COMMITS = group_table(
    "OffsetCommit",
    COMMIT,
    [
        _committed("nothing yet", "outside"),
        *each(_OUTSIDE, lambda side, build: build(side), versions=EVERY),
        Case("with retention", lambda s: commit(s, "retained", KEPT, retention_ms=10**9), versions=until(4)),
        Case("as an instance", lambda s: commit(s, "instance", KEPT, instance="what"), versions=since(7)),
        *(
            _committed(f"kept of {group}", f"{group}-9")
            for group in ("new", "twice", "negative", "large", "epoch", "long", "lone", "never")
        ),
        *(described(f"what became of {group}", f"{group}-9") for group in ("new", "long", "lone", "never")),
        _committed("kept of a group that only asked for the impossible", "outside"),
    ],
    topics={"held": {}},
)


def _one(side: Side) -> str:
    return side.member("inside", "one")


def _inside() -> Iterator[Case]:
    """Commits of and around a member."""
    group, others = "inside", ("inside", 0)

    def by_one(name: str, generation: int = 1, versions: range = EVERY) -> Case:
        return Case(name, lambda s: commit(s, group, others, generation=generation, member=_one(s)), versions=versions)

    yield Case("an id that was given", lambda _: join(group), [9], JOIN)
    yield Case(
        "commit of an id that was given",
        lambda s: commit(s, group, others, member=s.member(group, "an id that was given")),
    )
    yield Case(
        "an id that was given leaves",
        lambda s: leave(s, group, (s.member(group, "an id that was given"), None)),
        [5],
        ApiKey.LEAVE_GROUP,
    )
    yield from joined(group, "one", 9)
    yield by_one("before the assignment")
    yield Case("one syncs", lambda s: sync(group, _one(s), (_one(s), ASSIGNMENT)), [5], SYNC)
    yield by_one("when all is well")
    yield by_one("of an older generation", 0)
    yield by_one("of a later generation", 2)
    yield by_one("of no generation", -1)
    yield Case("of a stranger", lambda s: commit(s, group, others, generation=1, member="who"), versions=EVERY)
    yield Case("without a member", lambda s: commit(s, group, others), versions=EVERY)
    yield Case("without a member, in its generation", lambda s: commit(s, group, others, generation=1), versions=EVERY)
    yield Case(
        "of an unknown instance",
        lambda s: commit(s, group, others, generation=1, member=_one(s), instance="what"),
        versions=since(7),
    )
    yield Case(
        "of a topic that it does not read", lambda s: commit(s, group, ("held", 0), generation=1, member=_one(s))
    )
    yield _committed("kept", group)
    yield Case("one leaves", lambda s: leave(s, group, (_one(s), None)), [5], ApiKey.LEAVE_GROUP)
    yield by_one("after it left")
    yield Case("without a member, to the empty group", lambda s: commit(s, group, others, offset=3), versions=[9])
    yield _committed("kept in the end", group)


MEMBERS_COMMITS = group_table("Commits of members", COMMIT, [*_inside()], topics={"inside": {}, "also-held": {}})


def _two_groups(side: Side, first: str, second: str) -> OffsetFetchRequest:
    groups = [fetched(side, group, KEPT).groups[0] for group in (first, second)]
    return OffsetFetchRequest(groups=groups)


_FETCHES: dict[str, Callable[[Side], OffsetFetchRequest]] = {
    "a partition": lambda s: fetched(s, "fetched", ("fetched", 0)),
    "a partition without": lambda s: fetched(s, "fetched", ("fetched", 1)),
    "an unknown partition": lambda s: fetched(s, "fetched", ("fetched", 9)),
    "an unknown topic": lambda s: fetched(s, "fetched", ("fetched-never", 0)),
    "known and unknown": lambda s: fetched(s, "fetched", ("fetched", 0), ("fetched", 9), ("fetched-never", 0)),
    "a partition twice": lambda s: fetched(s, "fetched", ("fetched", 0), ("fetched", 0)),
    "nothing": lambda s: fetched(s, "fetched"),
    "without a group": lambda s: fetched(s, "", ("fetched", 0)),
    "an unknown group": lambda s: fetched(s, "fetched-never", ("fetched", 0)),
}

FETCHES = group_table(
    "OffsetFetch",
    FETCH,
    [
        Case("committed", lambda s: commit(s, "fetched", ("fetched", 0), epoch=0), [9], COMMIT),
        *each(_FETCHES, lambda side, build: build(side), versions=EVERY),
        Case("everything", lambda s: fetched(s, "fetched", every=True), versions=since(2)),
        Case("everything of an unknown group", lambda s: fetched(s, "fetched-never", every=True), versions=since(2)),
        Case("everything without a group", lambda s: fetched(s, "", every=True), versions=since(2)),
        Case("two groups", lambda s: _two_groups(s, "fetched", "fetched-never"), versions=since(MANY_GROUPS_SINCE)),
        Case("a group twice", lambda s: _two_groups(s, "fetched", "fetched"), versions=since(MANY_GROUPS_SINCE)),
        Case("no groups", lambda _: OffsetFetchRequest(groups=[]), versions=since(MANY_GROUPS_SINCE)),
        Case(
            "as a member of a classic group",
            lambda s: fetched(s, "fetched", ("fetched", 0), member="who", epoch=1),
            versions=since(9),
        ),
        Case(
            "as a member of an unknown group",
            lambda s: fetched(s, "fetched-never", ("fetched", 0), member="who", epoch=1),
            versions=since(9),
        ),
    ],
    topics={"fetched": {}, "held-too": {}},
)


def deletion(group: str, *where: Where) -> OffsetDeleteRequest:
    topics: dict[str, OffsetDeleteRequestTopic] = {}
    for topic, index in where:
        entry = topics.setdefault(topic, OffsetDeleteRequestTopic(name=topic, partitions=[]))
        entry.partitions.append(OffsetDeleteRequestPartition(partition_index=index))
    return OffsetDeleteRequest(group_id=group, topics=list(topics.values()))


def _filled(group: str, *where: Where) -> Case:
    return Case(f"filled {group}", lambda s: commit(s, group, *where), [9], COMMIT)


def _one_of(group: str, *, kind: str = "consumer") -> Iterator[Case]:
    """A group with a member that reads the topic of the members' subscription, or speaks no consumer's language."""
    yield Case("one", lambda _: join(group, kind=kind), [3], JOIN)
    yield Case(
        "one syncs",
        lambda s: sync(group, s.member(group, "one"), (s.member(group, "one"), ASSIGNMENT), kind=kind),
        [5],
        SYNC,
    )
    yield Case(
        "one commits",
        lambda s: commit(s, group, ("members", 0), ("unread", 0), generation=1, member=s.member(group, "one")),
        [9],
        COMMIT,
    )


DELETIONS = group_table(
    "OffsetDelete",
    DELETE,
    [
        Case("unknown group", lambda _: deletion("gone-never", ("members", 0))),
        Case("no group", lambda _: deletion("", ("members", 0))),
        _filled("thinned", ("members", 0), ("members", 1), ("unread", 0)),
        Case("one offset", lambda _: deletion("thinned", ("members", 0))),
        Case("one that is not there", lambda _: deletion("thinned", ("members", 0))),
        Case("unknown partition", lambda _: deletion("thinned", ("members", 9))),
        Case("unknown topic", lambda _: deletion("thinned", ("members-never", 0))),
        Case("known and unknown", lambda _: deletion("thinned", ("members", 1), ("members", 9), ("never", 0))),
        Case("nothing", lambda _: deletion("thinned")),
        _committed("what is left", "thinned"),
        *_one_of("reading"),
        Case("what is read and what is not", lambda _: deletion("reading", ("members", 0), ("unread", 0))),
        _committed("what is left of what is read", "reading"),
        *_one_of("connecting", kind="connect"),
        Case("of a group that is no consumers'", lambda _: deletion("connecting", ("members", 0))),
        Case("unknown partition of that", lambda _: deletion("connecting", ("members", 9))),
        Case("an id that was given", lambda _: join("promised"), [9], JOIN),
        Case("of a group that is promised", lambda _: deletion("promised", ("members", 0))),
    ],
    topics={"members": {}, "unread": {}},
)


def _listed(*, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> ListGroupsRequest:
    return ListGroupsRequest(states_filter=list(states), types_filter=list(types))


_STATES = {"stable": "Stable", "empty": "Empty", "preparing": "PreparingRebalance", "lower case": "stable", "none": "x"}

LISTING = group_table(
    "ListGroups",
    ApiKey.LIST_GROUPS,
    [
        Case("all", lambda _: _listed(), versions=EVERY),
        *each(_STATES, lambda _, state: _listed(states=(state,)), prefix="state ", versions=since(4)),
        Case("two states", lambda _: _listed(states=("Stable", "Empty")), versions=since(4)),
        Case("an empty state", lambda _: _listed(states=("",)), versions=since(4)),
        *each(
            {"classic": "classic", "consumer": "consumer", "upper case": "CLASSIC", "unknown": "x", "empty": ""},
            lambda _, kind: _listed(types=(kind,)),
            prefix="type ",
            versions=since(5),
        ),
        Case("state and type", lambda _: _listed(states=("Empty",), types=("classic",)), versions=since(5)),
    ],
)

DESCRIBING = group_table(
    "DescribeGroups",
    ApiKey.DESCRIBE_GROUPS,
    [
        _filled("seen", ("seen", 0)),
        Case("a group of offsets", lambda _: DescribeGroupsRequest(groups=["seen"]), versions=EVERY),
        Case("unknown", lambda _: DescribeGroupsRequest(groups=["seen-never"]), versions=EVERY),
        Case("no group", lambda _: DescribeGroupsRequest(groups=[""]), versions=EVERY),
        Case("nothing", lambda _: DescribeGroupsRequest(groups=[]), versions=EVERY),
        Case("two", lambda _: DescribeGroupsRequest(groups=["seen", "seen-never"]), versions=EVERY),
        Case("one twice", lambda _: DescribeGroupsRequest(groups=["seen", "seen"]), versions=EVERY),
        Case(
            "with operations",
            lambda _: DescribeGroupsRequest(groups=["seen", "seen-never"], include_authorized_operations=True),
            versions=since(3),
        ),
    ],
    topics={"seen": {}},
)


def _delete(*groups: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=list(groups))


def _deleted(version: int) -> Iterator[Case]:
    busy, idle = f"busy-{version}", f"idle-{version}"
    yield from joined(busy, "one", 9)
    yield _filled(idle, ("deleted", 0))
    yield Case("with members and without", lambda _: _delete(busy, idle, "deleted-never", ""), [version])
    yield Case("again", lambda _: _delete(idle), [version])
    yield _committed("nothing is left", idle)
    yield Case("one leaves", lambda s: leave(s, busy, (s.member(busy, "one"), None)), [5], ApiKey.LEAVE_GROUP)
    yield Case("twice in one request", lambda _: _delete(busy, busy), [version])
    yield Case("nothing", lambda _: _delete(), [version])
    yield described("deleted", busy)


DELETING = group_table(
    "DeleteGroups",
    ApiKey.DELETE_GROUPS,
    [
        *(case for version in stable_versions(ApiKey.DELETE_GROUPS) for case in _deleted(version)),
        Case("an id that was given", lambda _: join("given"), [9], JOIN),
        Case("of an id that was given", lambda _: _delete("given")),
    ],
    topics={"deleted": {}},
)

TABLES = (COMMITS, MEMBERS_COMMITS, FETCHES, DELETIONS, LISTING, DESCRIBING, DELETING)
