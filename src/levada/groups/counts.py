"""What coordinators have done so far, in plain numbers for the metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class GroupCounts:
    offset_commits: int = 0
    offset_expirations: int = 0
    offset_deletions: int = 0
    classic_rebalances: int = 0
    """Completed: the leader's assignment is there."""
    consumer_rebalances: int = 0
    """Begun: the group has a new epoch."""
