"""Classic consumer groups: membership, rebalances and committed offsets, in memory.

`Groups` is the coordinator's whole state; it knows neither clock nor loop. `GroupSettings` is what it is told,
`Joiner` and `NewOffset` are what it needs beside the wire messages, `CommittedOffset` is what it keeps.
"""

from penstock.groups.group import CommittedOffset, Group, State
from penstock.groups.groups import Groups, Joiner, NewOffset
from penstock.groups.member import Token
from penstock.groups.rebalance import Reply
from penstock.groups.settings import GroupSettings

__all__ = ["CommittedOffset", "Group", "GroupSettings", "Groups", "Joiner", "NewOffset", "Reply", "State", "Token"]
