"""What can go wrong for the user of a client: one class for each thing that one would catch.

>>> error_for(10, context="orders-3").retriable
False
>>> raise error_for(29, context="orders")
Traceback (most recent call last):
    ...
levada.client.errors.TopicAuthorizationFailed: orders: TOPIC_AUTHORIZATION_FAILED (29): the cluster's ACLs do not \
allow this on the topic
"""

from collections.abc import Mapping
from typing import Any

from levada.client.error_texts import ADVICE, REFRESHES_METADATA, RETRIABLE
from levada.client.types import TopicPartition
from levada.model.errors import MAX_TEXT_LENGTH, ErrorCode


class KafkaError(Exception):
    """Anything that a client raises on its own account, or that a broker refused."""

    code: ErrorCode | None = None
    """What the broker said; None where no broker was asked, or its code is not known here."""
    retriable: bool = False
    """The same call may succeed later, with nothing changed. The clients have tried already."""
    fatal: bool = False
    """This client is of no more use; close it."""
    needs_abort: bool = False
    """A transaction that was under way can only be aborted."""
    said: str | None = None
    """The broker's own words; None where it gave only a code."""

    def __init__(self, text: str = "", *, code: ErrorCode | None = None) -> None:
        super().__init__(text)
        if code is not None:
            self.code = code
            self.retriable = code in RETRIABLE

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "code" in cls.__dict__ and "retriable" not in cls.__dict__:
            cls.retriable = cls.code in RETRIABLE

    @property
    def refreshes_metadata(self) -> bool:
        """Whether it says that what the client knows about the cluster is out of date."""
        return self.code in REFRESHES_METADATA


# Of the client itself.


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


# Of what the client may do.


class UnsupportedVersion(KafkaError):
    """The broker is too old, or too new, for what was asked of it."""

    code = ErrorCode.UNSUPPORTED_VERSION
    fatal = True


class AuthenticationFailed(KafkaError):
    """The broker does not take the client for whom it says it is."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    fatal = True


class AuthorizationFailed(KafkaError):
    """The cluster's access rules do not allow it."""


class TopicAuthorizationFailed(AuthorizationFailed):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    needs_abort = True


class GroupAuthorizationFailed(AuthorizationFailed):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    needs_abort = True


class ClusterAuthorizationFailed(AuthorizationFailed):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fatal = True


class TransactionalIdAuthorizationFailed(AuthorizationFailed):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    fatal = True


# Of topics and records.


class UnknownTopicOrPartition(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidTopic(KafkaError):
    """A name that no topic can have."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class RecordTooLarge(KafkaError):
    """Larger than the producer (`max.request.size`) or the topic (`max.message.bytes`) takes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class CorruptRecord(KafkaError):
    """A batch whose checksum or layout is wrong."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecord(KafkaError):
    """A record that the broker's checks refuse: no key in a compacted topic, a timestamp too far off."""

    code = ErrorCode.INVALID_RECORD


class NotEnoughReplicas(KafkaError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class QuotaExceeded(KafkaError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


# Of idempotent and transactional producers.


class ProducerFenced(KafkaError):
    """Another producer with the same `transactional.id` has started since."""

    code = ErrorCode.PRODUCER_FENCED
    fatal = True


class InvalidProducerEpoch(KafkaError):
    """The coordinator has ended this producer's transaction, or given its id to another."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH
    needs_abort = True


class OutOfOrderSequence(KafkaError):
    """The broker misses a batch before this one, or has forgotten the producer: records may be lost."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    needs_abort = True


class TransactionAborted(KafkaError):
    """A record that was not sent, or does not count, because its transaction was aborted."""


class TransactionAbortable(KafkaError):
    """The coordinator asks for the transaction to be aborted; the producer can go on with the next (KIP-890)."""

    code = ErrorCode.TRANSACTION_ABORTABLE
    needs_abort = True


class InvalidTransactionState(KafkaError):
    """The coordinator's view of the transaction does not allow the step."""

    code = ErrorCode.INVALID_TXN_STATE
    fatal = True


# Of groups and positions.


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


class RebalanceInProgress(KafkaError):
    """A commit while the group rebalances: poll to take part in it, then commit what is still owned."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class FencedInstance(KafkaError):
    """Another consumer with the same `group.instance.id` has started since."""

    code = ErrorCode.FENCED_INSTANCE_ID
    fatal = True
    needs_abort = True


class OffsetOutOfRange(KafkaError):
    """A position that its log does not have (any more), and `auto.offset.reset` is none."""

    code: ErrorCode | None = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(
        self,
        text: str = "",
        *,
        offsets: Mapping[TopicPartition, int] | None = None,
        code: ErrorCode | None = None,
    ) -> None:
        super().__init__(text, code=code)
        self.offsets: dict[TopicPartition, int] = dict(offsets or {})
        """The positions in question, by topic and partition."""


class LogTruncated(OffsetOutOfRange):
    """An unclean election cut records off that were read already (KIP-320)."""

    code = None

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


class InconsistentGroup(KafkaError):
    """The members of the group have no assignor in common, or the group is of another type."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class GroupFull(KafkaError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED


# Of administration.


class TopicAlreadyExists(KafkaError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(KafkaError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(KafkaError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidConfig(KafkaError):
    """A topic, broker or group key that the broker refuses."""

    code = ErrorCode.INVALID_CONFIG


class PolicyViolation(KafkaError):
    code = ErrorCode.POLICY_VIOLATION


class GroupNotFound(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class GroupNotEmpty(KafkaError):
    code = ErrorCode.NON_EMPTY_GROUP


_FATAL = frozenset({ErrorCode.INVALID_TRANSACTION_TIMEOUT, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT})
_NEEDS_ABORT = frozenset({ErrorCode.INVALID_PRODUCER_ID_MAPPING})

_SEVERAL: dict[ErrorCode, type[KafkaError]] = {
    ErrorCode.REQUEST_TIMED_OUT: TimedOut,
    ErrorCode.UNKNOWN_TOPIC_ID: UnknownTopicOrPartition,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    ErrorCode.INVALID_TIMESTAMP: InvalidRecord,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: NotEnoughReplicas,
    ErrorCode.UNKNOWN_PRODUCER_ID: OutOfOrderSequence,
    ErrorCode.ILLEGAL_GENERATION: MembershipLost,
    ErrorCode.UNKNOWN_MEMBER_ID: MembershipLost,
    ErrorCode.FENCED_MEMBER_EPOCH: MembershipLost,
    ErrorCode.STALE_MEMBER_EPOCH: MembershipLost,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationFailed,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationFailed,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationFailed,
}


def _below(base: type[KafkaError]) -> list[type[KafkaError]]:
    return [found for cls in base.__subclasses__() for found in (cls, *_below(cls))]


_CLASSES: dict[ErrorCode, type[KafkaError]] = {
    **{cls.code: cls for cls in _below(KafkaError) if cls.code is not None and "code" in cls.__dict__},
    **_SEVERAL,
}


def error_for(code: int, message: str | None = None, *, context: str = "") -> KafkaError:
    """The error that a code on the wire stands for; `message` is the broker's, `context` what it is about."""
    assert code != ErrorCode.NONE, "no error"
    try:
        known = ErrorCode(code)
    except ValueError:
        return KafkaError(_text(f"error {code}, which this client does not know", message, None, context))
    error = _CLASSES.get(known, KafkaError)(_text(f"{known.name} ({code})", message, ADVICE.get(known), context))
    error.code = known
    error.said = message
    error.retriable = known in RETRIABLE
    error.fatal = error.fatal or known in _FATAL
    error.needs_abort = error.needs_abort or known in _NEEDS_ABORT
    return error


def _text(name: str, message: str | None, advice: str | None, context: str) -> str:
    said = (message or "").strip()[:MAX_TEXT_LENGTH].rstrip(".")
    tail = "; ".join(filter(None, (said, advice)))
    return ": ".join(filter(None, (context, name, tail)))
