"""The small fixed vocabularies of administration; what a newer broker adds to one reads as UNKNOWN."""

from enum import IntEnum, StrEnum
from typing import Any

NOT_ASKED = -(2**31)
"""Of authorized operations: the broker did not tell."""


class _Numbered(IntEnum):
    @classmethod
    def _missing_(cls, value: object) -> Any:
        return cls["UNKNOWN"]


class _Named(StrEnum):
    @classmethod
    def _missing_(cls, value: object) -> Any:
        # Some brokers write these words in lower case.
        wanted = str(value).casefold()
        return next((member for member in cls if member.casefold() == wanted), cls["UNKNOWN"])


class ConfigKind(_Numbered):
    """What a configuration belongs to."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(_Numbered):
    """Where the value of a key comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    """Changed for one broker while it ran."""
    BROKER_DEFAULT = 3
    """Changed for all brokers while they ran."""
    STATIC_BROKER = 4
    """The broker's own server.properties."""
    DEFAULT = 5
    BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigType(_Numbered):
    """What a key's value is."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class OffsetSpec(IntEnum):
    """Which offset of a partition `list_offsets` should find, where it is not that of a time."""

    LATEST = -1
    """The end: one past the last record that may be read."""
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the largest timestamp."""
    EARLIEST_LOCAL = -4
    """The first record that is not only in remote storage."""
    LATEST_TIERED = -5
    """The last record that is in remote storage."""
    EARLIEST_PENDING_UPLOAD = -6
    """The first record that is not yet in remote storage."""


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class ElectionType(IntEnum):
    PREFERRED = 0
    """The first replica, which must be in sync."""
    UNCLEAN = 1
    """Any replica that is alive, where no other can lead: records may be lost."""


class GroupState(_Named):
    UNKNOWN = "Unknown"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


class GroupType(_Named):
    """By which protocol the members of a group agree."""

    UNKNOWN = "Unknown"
    CLASSIC = "Classic"
    CONSUMER = "Consumer"
    SHARE = "Share"
    STREAMS = "Streams"


class TransactionState(_Named):
    UNKNOWN = "Unknown"
    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


class UpgradeType(IntEnum):
    """What a change of a feature's level may do."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
    """Metadata may be lost."""


class ResourceType(_Numbered):
    """What an access rule is about; ANY in filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_Numbered):
    """How an access rule names its resources; ANY and MATCH in filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """All rules that apply to the name: literal, prefixed and `*`."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Numbered):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(_Numbered):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class ScramMechanism(_Numbered):
    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2


def authorized_operations(bits: int) -> frozenset[AclOperation] | None:
    """What the client may do, of which brokers tell by a bit per operation; None where they did not tell."""
    if bits == NOT_ASKED:
        return None
    return frozenset(operation for operation in AclOperation if operation and bits >> operation & 1)
