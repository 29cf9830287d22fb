"""The assignors that the coordinator of a consumer group runs itself (KIP-848).

`ASSIGNORS` has them by the name that a client or `group.consumer.assignors` gives them. Each takes the members by their
id and the partition counts by topic id, and is a function of the order of both: equal input gives equal output.
"""

from collections.abc import Callable, Mapping

from levada.groups.assignors.range import assign_range
from levada.groups.assignors.spec import Assignment, AssignmentError, MemberSpec
from levada.groups.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Callable[[Mapping[str, MemberSpec], Mapping[bytes, int]], Assignment]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}

__all__ = ["ASSIGNORS", "Assignment", "AssignmentError", "MemberSpec"]
