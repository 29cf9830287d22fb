"""What transaction coordinators are told when the node starts."""

from dataclasses import dataclass

EPOCH_BUMP_VERSION = 2
"""The transaction version in which every transaction has an epoch of its own (KIP-890)."""


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    abort_check_interval_ms: int = 10_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    removal_check_interval_ms: int = 3_600_000
    transaction_version: int = EPOCH_BUMP_VERSION
    """The level of the feature `transaction.version`: what the coordinator ends of its own accord, it ends so."""
