"""The consumer: subscriptions, group membership, fetching, positions, commits."""

from penstock.client.consumer.consumer import Consumer

__all__ = ["Consumer"]
