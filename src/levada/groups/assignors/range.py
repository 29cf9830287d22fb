"""The range assignor: each topic is cut into one piece per subscriber, so that equal numbers of topics meet."""

from collections.abc import Mapping

from levada.groups.assignors.spec import Assignment, AssignmentError, MemberSpec
from levada.model.hashes import uuid_to_text


def assign_range(members: Mapping[str, MemberSpec], partition_counts: Mapping[bytes, int]) -> Assignment:
    """Neighbours go to one member; what does not divide goes to the first ones."""
    in_order = sorted(members, key=lambda member_id: _rank(member_id, members[member_id].instance_id))
    subscribers: dict[bytes, list[str]] = {}
    for member_id in in_order:
        for topic_id in members[member_id].topics:
            subscribers.setdefault(topic_id, []).append(member_id)
    assignment: Assignment = {member_id: {} for member_id in in_order}
    for topic_id, member_ids in subscribers.items():
        if topic_id not in partition_counts:
            raise AssignmentError(f"a member subscribes to topic {uuid_to_text(topic_id)}, which is not known")
        least, extra = divmod(partition_counts[topic_id], len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            stop = start + least + (place < extra)
            if start < stop:
                assignment[member_id][topic_id] = list(range(start, stop))
            start = stop
    return assignment


def _rank(member_id: str, instance_id: str | None) -> tuple[bool, bytes]:
    """Static members first, by the name they keep over restarts; the order is that of Java's strings."""
    name = member_id if instance_id is None else instance_id
    return instance_id is None, name.encode("utf-16-be", "surrogatepass")
