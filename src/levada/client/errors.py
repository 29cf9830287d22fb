"""What can go wrong for the user of a client: what brokers refuse, and what a client finds by itself.

>>> error_for(10, context="orders-3").retriable
False
>>> raise error_for(29, context="orders")
Traceback (most recent call last):
    ...
levada.model.errors.TopicAuthorizationFailed: orders: TOPIC_AUTHORIZATION_FAILED (29): the cluster's ACLs do not \
allow this on the topic
"""

from collections.abc import Mapping

from levada.client.error_texts import ADVICE
from levada.model import errors
from levada.model.error_codes import RETRIABLE, ErrorCode
from levada.model.errors import (
    MAX_TEXT_LENGTH,
    ApiError,
    AuthenticationFailed,
    AuthorizationFailed,
    BrokerIdNotRegistered,
    ClusterAuthorizationFailed,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptRecord,
    DuplicateSequence,
    FencedInstance,
    FencedLeaderEpoch,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    GroupAuthorizationFailed,
    GroupFull,
    GroupNotEmpty,
    GroupNotFound,
    InconsistentGroup,
    InconsistentTopicId,
    InvalidConfig,
    InvalidFetchSessionEpoch,
    InvalidPartitions,
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidRecord,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    InvalidRequiredAcks,
    InvalidTimestamp,
    InvalidTopic,
    InvalidTransactionState,
    KafkaError,
    KafkaStorageError,
    LogDirNotFound,
    NoReassignmentInProgress,
    NotController,
    NotCoordinator,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    OutOfOrderSequence,
    PolicyViolation,
    ProducerFenced,
    QuotaExceeded,
    RebalanceInProgress,
    RecordBatchTooLarge,
    RecordTooLarge,
    TopicAlreadyExists,
    TopicAuthorizationFailed,
    TopicDeletionDisabled,
    TransactionAbortable,
    TransactionalIdAuthorizationFailed,
    TransactionCoordinatorFenced,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    UnsupportedCompressionType,
    UnsupportedForMessageFormat,
    UnsupportedVersion,
)
from levada.model.topic_partition import TopicPartition

__all__ = [
    "ApiError",
    "AuthenticationFailed",
    "AuthorizationFailed",
    "BrokerIdNotRegistered",
    "BufferExhausted",
    "ClusterAuthorizationFailed",
    "CommitFailed",
    "ConfigurationError",
    "CoordinatorLoadInProgress",
    "CoordinatorNotAvailable",
    "CorruptRecord",
    "Disconnected",
    "DuplicateSequence",
    "FencedInstance",
    "FencedLeaderEpoch",
    "FetchSessionIdNotFound",
    "FetchSessionTopicIdError",
    "GroupAuthorizationFailed",
    "GroupFull",
    "GroupNotEmpty",
    "GroupNotFound",
    "IllegalState",
    "InconsistentGroup",
    "InconsistentTopicId",
    "InvalidConfig",
    "InvalidFetchSessionEpoch",
    "InvalidPartitions",
    "InvalidProducerEpoch",
    "InvalidProducerIdMapping",
    "InvalidRecord",
    "InvalidReplicaAssignment",
    "InvalidReplicationFactor",
    "InvalidRequest",
    "InvalidRequiredAcks",
    "InvalidTimestamp",
    "InvalidTopic",
    "InvalidTransactionState",
    "KafkaError",
    "KafkaStorageError",
    "LogDirNotFound",
    "LogTruncated",
    "MembershipLost",
    "NoBrokerReached",
    "NoOffsetForPartition",
    "NoReassignmentInProgress",
    "NotController",
    "NotCoordinator",
    "NotEnoughReplicas",
    "NotLeaderOrFollower",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "PolicyViolation",
    "ProducerFenced",
    "QuotaExceeded",
    "RebalanceInProgress",
    "RecordBatchTooLarge",
    "RecordTooLarge",
    "SerializationFailed",
    "TimedOut",
    "TopicAlreadyExists",
    "TopicAuthorizationFailed",
    "TopicDeletionDisabled",
    "TransactionAbortable",
    "TransactionAborted",
    "TransactionCoordinatorFenced",
    "TransactionalIdAuthorizationFailed",
    "UnknownLeaderEpoch",
    "UnknownServerError",
    "UnknownTopicId",
    "UnknownTopicOrPartition",
    "UnsupportedCompressionType",
    "UnsupportedForMessageFormat",
    "UnsupportedVersion",
    "error_for",
    "timed_out",
]


class ConfigurationError(KafkaError, ValueError):
    """A setting that is unknown, cannot hold its value, or contradicts another."""

    fatal = True


class IllegalState(KafkaError):
    """A call in the wrong order, or to a client that is closed."""


class SerializationFailed(KafkaError):
    """A key or value that its serializer or deserializer could not handle."""

    def __init__(
        self,
        text: str = "",
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
    ) -> None:
        super().__init__(text)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """Of a record that was fetched: seek past it to go on."""


class Disconnected(KafkaError, ConnectionError):
    """A connection was refused or lost while an answer was outstanding."""

    code = ErrorCode.NETWORK_EXCEPTION


class TimedOut(KafkaError, TimeoutError):
    """A limit of the client's own has passed (`timed_out` says which), or the broker ran into one of its."""

    retriable = True


class NoBrokerReached(TimedOut):
    """No address of `bootstrap.servers` has ever answered this client as a Kafka broker; the text says why."""


class BufferExhausted(TimedOut):
    """`buffer.memory` stayed full for `max.block.ms`: records are sent faster than the brokers take them."""


def timed_out(what: str, setting: str, limit_ms: int, check: str = "") -> TimedOut:
    """A local timeout; `what` did not happen within `setting`, and `check` is what to look at.

    >>> print(timed_out("topic 'orders' has no metadata", "max.block.ms", 60_000, "does the topic exist?"))
    topic 'orders' has no metadata after 60000 ms (max.block.ms); does the topic exist?
    """
    return TimedOut(f"{what} after {limit_ms} ms ({setting})" + (f"; {check}" if check else ""))


class TransactionAborted(KafkaError):
    """A record that was not sent, or does not count, because its transaction was aborted."""


class MembershipLost(KafkaError):
    """The group has gone on without this member."""

    needs_abort = True


class CommitFailed(MembershipLost):
    """Offsets were not committed: their partitions may belong to another member by now."""

    def __init__(self, text: str = "", *, code: ErrorCode | None = None) -> None:
        super().__init__(text or COMMIT_FAILED, code=code)


COMMIT_FAILED = (
    "the offsets are not committed: the group has rebalanced without this member, and its partitions may belong to "
    "another one now, which will see the same records again. Most often too much time passed between two polls: raise "
    "max.poll.interval.ms, or get fewer records at once with max.poll.records. The next poll joins the group again"
)


class LogTruncated(OffsetOutOfRange):
    """An unclean election cut records off that were read already (KIP-320)."""

    code = None  # type: ignore[assignment]  # No broker says so: the client compares epochs.

    def __init__(
        self,
        text: str = "",
        *,
        offsets: Mapping[TopicPartition, int] | None = None,
        divergent_offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        super().__init__(text, offsets=offsets)
        self.divergent_offsets: dict[TopicPartition, int] = dict(divergent_offsets or {})
        """The first offset that differs from what was read, by topic and partition, where it is known: seek there."""


class NoOffsetForPartition(KafkaError):
    """Nothing is committed, and `auto.offset.reset` is none."""

    def __init__(self, text: str = "", *, partitions: tuple[TopicPartition, ...] = ()) -> None:
        super().__init__(text)
        self.partitions = partitions


_FATAL = frozenset({ErrorCode.INVALID_TRANSACTION_TIMEOUT})

_SEVERAL: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.REQUEST_TIMED_OUT: TimedOut,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: NotEnoughReplicas,
    ErrorCode.UNKNOWN_PRODUCER_ID: OutOfOrderSequence,
    ErrorCode.ILLEGAL_GENERATION: MembershipLost,
    ErrorCode.UNKNOWN_MEMBER_ID: MembershipLost,
    ErrorCode.FENCED_MEMBER_EPOCH: MembershipLost,
    ErrorCode.STALE_MEMBER_EPOCH: MembershipLost,
    ErrorCode.NETWORK_EXCEPTION: Disconnected,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationFailed,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationFailed,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationFailed,
}


def _api_errors() -> list[type[ApiError]]:
    """Those that stand for a code."""
    found = (one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, ApiError))
    return [one for one in found if "code" in vars(one) and one is not ApiError]


_CLASSES: dict[ErrorCode, type[KafkaError]] = {
    **{one.code: one for one in _api_errors()},
    **_SEVERAL,
}


def error_for(code: int, message: str | None = None, *, context: str = "") -> KafkaError:
    """The error that a code on the wire stands for; `message` is the broker's, `context` what it is about."""
    assert code != ErrorCode.NONE, "no error"
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(_text(f"error {code}, which this client does not know", message, None, context))
    error = _CLASSES.get(known, ApiError)(_text(f"{known.name} ({code})", message, ADVICE.get(known), context))
    error.code = known
    error.said = message
    error.retriable = known in RETRIABLE
    error.fatal = error.fatal or known in _FATAL
    return error


def _text(name: str, message: str | None, advice: str | None, context: str) -> str:
    said = (message or "").strip()[:MAX_TEXT_LENGTH].rstrip(".")
    tail = "; ".join(filter(None, (said, advice)))
    return ": ".join(filter(None, (context, name, tail)))
