"""Telling the user's rebalance listener what comes and goes."""

from collections.abc import Awaitable, Callable, Collection

from levada.client.consumer.subscription import Subscriptions
from levada.client.types import TopicPartition

Tell = Callable[[Collection[TopicPartition]], Awaitable[None] | None]


async def revoke(
    subscriptions: Subscriptions, partitions: Collection[TopicPartition], *, is_lost: bool = False
) -> None:
    """Tell the listener while the partitions are still assigned, so that it can commit and look; then they go."""
    going = frozenset(partitions)
    try:
        await _tell(_farewell(subscriptions, is_lost=is_lost), partitions)
    finally:
        if subscriptions.is_group_managed:
            subscriptions.assign_from_group([one for one in subscriptions.assigned() if one not in going])


async def assign(subscriptions: Subscriptions, partitions: Collection[TopicPartition]) -> None:
    """Assign partitions beside those that stay, and tell the listener."""
    if not subscriptions.is_group_managed:
        return
    subscriptions.assign_from_group(list(dict.fromkeys((*subscriptions.assigned(), *partitions))))
    listener = subscriptions.listener
    await _tell(None if listener is None else listener.on_partitions_assigned, partitions)


def stop_reading(subscriptions: Subscriptions, partitions: Collection[TopicPartition]) -> None:
    """Hand out nothing more of what is about to go; its positions are the last."""
    subscriptions.settle()
    for partition in partitions:
        if subscriptions.is_assigned(partition):
            subscriptions.state(partition).is_being_revoked = True


def _farewell(subscriptions: Subscriptions, *, is_lost: bool) -> Tell | None:
    listener = subscriptions.listener
    if listener is None:
        return None
    # As in Java's client, a listener without `on_partitions_lost` hears that they are revoked.
    lost: Tell | None = getattr(listener, "on_partitions_lost", None)
    return lost if is_lost and lost is not None else listener.on_partitions_revoked


async def _tell(tell: Tell | None, partitions: Collection[TopicPartition]) -> None:
    answer = None if tell is None else tell(sorted(partitions))
    if answer is not None:
        await answer
