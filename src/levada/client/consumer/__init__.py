"""The consumer: subscriptions, group membership, fetching, positions, commits."""

from levada.client.consumer.consumer import Consumer

__all__ = ["Consumer"]
