"""Consumer groups and the offsets they commit, as state that is made of the records of `__consumer_offsets`.

`GroupMachine` is one partition's whole state; it knows neither clock nor loop. `GroupSettings` is what it is told,
`Joiner` and records made by `commit_record` are what it needs beside the wire messages, `CommittedOffset` is what it
keeps.
"""

from levada.groups.classic import ClassicGroups, Joiner
from levada.groups.counts import GroupCounts
from levada.groups.group import Group, State
from levada.groups.machine import Cluster, Committed, GroupMachine
from levada.groups.offsets import CommittedOffset, TopicOffsets, commit_record
from levada.groups.settings import GroupSettings

__all__ = [
    "ClassicGroups",
    "Cluster",
    "Committed",
    "CommittedOffset",
    "Group",
    "GroupCounts",
    "GroupMachine",
    "GroupSettings",
    "Joiner",
    "State",
    "TopicOffsets",
    "commit_record",
]
