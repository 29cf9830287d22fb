"""Consumer groups of the next generation, whose assignments the coordinator makes (KIP-848).

`ConsumerGroups` is all of them, `ConsumerGroup` is one, `ConsumerGroupSettings` is what they are told; `Client` and
`Committer` say who asks, `check_commit` and `check_fetch` what speaks against it; `ConsumerTimer` is the type of their
keys among the coordinator's timers.
"""

from levada.groups.consumer.commits import Committer, check_commit, check_fetch
from levada.groups.consumer.group import ConsumerGroup, ConsumerGroupState
from levada.groups.consumer.group_context import Client, ConsumerTimer
from levada.groups.consumer.groups import ConsumerGroups
from levada.groups.consumer.settings import ConsumerGroupSettings, Interval, MigrationPolicy

__all__ = [
    "Client",
    "Committer",
    "ConsumerGroup",
    "ConsumerGroupSettings",
    "ConsumerGroupState",
    "ConsumerGroups",
    "ConsumerTimer",
    "Interval",
    "MigrationPolicy",
    "check_commit",
    "check_fetch",
]
