"""Consumer groups and the offsets they commit, as state that is made of the records of `__consumer_offsets`.

`GroupMachine` is one partition's whole state; it knows neither clock nor loop. `GroupSettings` is what it is told,
`JoiningClient` and records made by `commit_record` are what it needs beside the wire messages, `CommittedOffset` is
what it keeps.
"""

from levada.groups.classic import ClassicGroups, JoiningClient
from levada.groups.counts import GroupCounts
from levada.groups.group import ClassicGroupState, Group
from levada.groups.machine import Committed, GroupCluster, GroupMachine
from levada.groups.offsets import CommittedOffset, TopicOffsets, commit_record
from levada.groups.settings import GroupSettings

__all__ = [
    "ClassicGroupState",
    "ClassicGroups",
    "Committed",
    "CommittedOffset",
    "Group",
    "GroupCluster",
    "GroupCounts",
    "GroupMachine",
    "GroupSettings",
    "JoiningClient",
    "TopicOffsets",
    "commit_record",
]
