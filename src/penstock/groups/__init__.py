"""Consumer groups and the offsets they commit, as state that is made of the records of `__consumer_offsets`.

`GroupMachine` is one partition's whole state; it knows neither clock nor loop. `GroupSettings` is what it is told,
`Joiner` and `NewOffset` are what it needs beside the wire messages, `CommittedOffset` is what it keeps.
"""

from penstock.groups.classic import ClassicGroups, Joiner
from penstock.groups.counts import GroupCounts
from penstock.groups.group import Group, State
from penstock.groups.machine import Cluster, Committed, GroupMachine
from penstock.groups.offsets import CommittedOffset, NewOffset, TopicOffsets
from penstock.groups.settings import GroupSettings

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
    "NewOffset",
    "State",
    "TopicOffsets",
]
