"""The uniform assignor: everybody gets the same number of partitions, as far as it goes, and keeps what it had."""

from collections.abc import Mapping, Sequence

from levada.groups.assignors.spec import Assignment, AssignmentError, MemberSpec
from levada.groups.assignors.unequal import assign_unequal
from levada.model.hashes import uuid_to_text


def assign_uniform(members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Assignment:
    """Without any topic to assign there is no member in the answer either."""
    topic_ids = list(dict.fromkeys(topic_id for member in members.values() for topic_id in member.topics))
    for topic_id in topic_ids:
        if topic_id not in partition_counts:
            raise AssignmentError(f"a member subscribes to topic {uuid_to_text(topic_id)}, which is not known")
    if not topic_ids:
        return {}
    if all(len(set(member.topics)) == len(topic_ids) for member in members.values()):
        return _assign_equal(members, topic_ids, partition_counts)
    return assign_unequal(members, topic_ids, partition_counts)


def _assign_equal(
    members: Mapping[str, MemberSpec], topic_ids: Sequence[bytes], partition_counts: Mapping[bytes, int]
) -> Assignment:
    """All subscribe to the same topics: fill each member to its share from what no member may keep."""
    assignment: Assignment = {}
    free = _unowned(members, topic_ids, partition_counts)
    wanting: list[tuple[str, int]] = []
    subscribed = set(topic_ids)
    least, extras = divmod(sum(partition_counts[topic_id] for topic_id in topic_ids), len(members))
    for place, (member_id, member) in enumerate(members.items()):
        may_have_extra = extras > 0
        share = least + may_have_extra
        kept: dict[bytes, list[int]] = {}
        for topic_id, partitions in member.current.items():
            if topic_id not in subscribed:
                continue
            if partitions[:share]:
                kept[topic_id] = list(partitions[:share])
            free.extend((topic_id, partition) for partition in partitions[share:])
            share = max(share - len(partitions), 0)
        if share and may_have_extra and len(members) - place > extras:
            # Those that hold one partition more than the least keep it, as long as enough members remain to take one.
            share -= 1
            may_have_extra = False
        extras -= may_have_extra
        if share:
            wanting.append((member_id, share))
        assignment[member_id] = kept
    _hand_out(free, wanting, assignment)
    return assignment


def _unowned(
    members: Mapping[str, MemberSpec], topic_ids: Sequence[bytes], partition_counts: Mapping[bytes, int]
) -> list[tuple[bytes, int]]:
    owned: dict[bytes, set[int]] = {topic_id: set() for topic_id in topic_ids}
    for member in members.values():
        for topic_id, partitions in member.current.items():
            if topic_id in owned:
                owned[topic_id].update(partitions)
    return [
        (topic_id, partition)
        for topic_id in topic_ids
        for partition in range(partition_counts[topic_id])
        if partition not in owned[topic_id]
    ]


def _hand_out(free: list[tuple[bytes, int]], wanting: list[tuple[str, int]], assignment: Assignment) -> None:
    start = 0
    for member_id, share in wanting:
        mine = assignment[member_id]
        for topic_id, partition in free[start : start + share]:
            mine.setdefault(topic_id, []).append(partition)
        start += share
    assert start >= len(free), "the shares of all members add up to all partitions"
    for topics in assignment.values():
        for partitions in topics.values():
            partitions.sort()
