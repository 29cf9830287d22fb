"""What goes wrong between clients and brokers: one class for each thing that a caller would treat in its own way.

A broker raises those of `ApiError`, and its answer has their code; a client makes them of the code again.
"""

from collections.abc import Mapping
from typing import Any

from levada.model.error_codes import REFRESHES_METADATA, RETRIABLE, ErrorCode
from levada.model.topic_partition import TopicPartition

MAX_TEXT_LENGTH = 1_000
"""Of an error's text. It may quote what a client sent, and a string on the wire has at most 32,767 bytes."""


def shortened(text: str) -> str:
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}..."


class KafkaError(Exception):
    """Anything that a client raises on its own account, or that a broker refuses."""

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


class ApiError(KafkaError):
    """A refusal of the broker's, which has a code; the text is for people."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR

    def __str__(self) -> str:
        # What a client was told is short already.
        return super().__str__() if self.said is not None else shortened(super().__str__())


class UnknownServerError(ApiError):
    code = ErrorCode.UNKNOWN_SERVER_ERROR


# Of requests.


class InvalidRequest(ApiError):
    code = ErrorCode.INVALID_REQUEST


class UnsupportedVersion(ApiError):
    """The broker is too old, or too new, for what was asked of it."""

    code = ErrorCode.UNSUPPORTED_VERSION
    fatal = True


class AuthenticationFailed(ApiError):
    """The broker does not take the client for whom it says it is."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED
    fatal = True


class AuthorizationFailed(ApiError):
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


class QuotaExceeded(ApiError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


# Of topics and their partitions.


class UnknownTopicOrPartition(ApiError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownTopicId(UnknownTopicOrPartition):
    code = ErrorCode.UNKNOWN_TOPIC_ID


class InconsistentTopicId(ApiError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID


class InvalidTopic(ApiError):
    """A name that no topic can have."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class NotLeaderOrFollower(ApiError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class FencedLeaderEpoch(ApiError):
    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(ApiError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class KafkaStorageError(ApiError):
    code = ErrorCode.KAFKA_STORAGE_ERROR


class LogDirNotFound(ApiError):
    code = ErrorCode.LOG_DIR_NOT_FOUND


class OffsetOutOfRange(ApiError):
    """A position that its log does not have (any more), and `auto.offset.reset` is none."""

    code: ErrorCode = ErrorCode.OFFSET_OUT_OF_RANGE

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


class FetchSessionIdNotFound(ApiError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class InvalidFetchSessionEpoch(ApiError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class FetchSessionTopicIdError(ApiError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


# Of records.


class RecordTooLarge(ApiError):
    """Larger than the producer (`max.request.size`) or the topic (`max.message.bytes`) takes."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class RecordBatchTooLarge(RecordTooLarge):
    """A batch larger than a segment."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class CorruptRecord(ApiError):
    """A batch whose checksum or layout is wrong."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecord(ApiError):
    """A record that the broker's checks refuse: no key in a compacted topic, a timestamp too far off."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(InvalidRecord):
    code = ErrorCode.INVALID_TIMESTAMP


class RecordsRefused(ApiError):
    """Some records of a batch cannot be taken: which of them, and why."""

    def __init__(self, code: ErrorCode, text: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(text, code=code)
        self.record_errors = record_errors


class UnsupportedForMessageFormat(ApiError):
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    fatal = True


class UnsupportedCompressionType(ApiError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRequiredAcks(ApiError):
    code = ErrorCode.INVALID_REQUIRED_ACKS


class NotEnoughReplicas(ApiError):
    """Fewer replicas are in sync than `min.insync.replicas` asks for."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


# Of idempotent and transactional producers.


class ProducerFenced(ApiError):
    """Another producer with the same `transactional.id` has started since."""

    code = ErrorCode.PRODUCER_FENCED
    fatal = True


class InvalidProducerEpoch(ApiError):
    """The coordinator has ended this producer's transaction, or given its id to another."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH
    needs_abort = True


class InvalidProducerIdMapping(ApiError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    needs_abort = True


class OutOfOrderSequence(ApiError):
    """The broker misses a batch before this one, or has forgotten the producer: records may be lost."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    needs_abort = True


class DuplicateSequence(ApiError):
    """A batch that is in the log already, and is not one of the last five."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class TransactionAbortable(ApiError):
    """The coordinator asks for the transaction to be aborted; the producer can go on with the next (KIP-890)."""

    code = ErrorCode.TRANSACTION_ABORTABLE
    needs_abort = True


class InvalidTransactionState(ApiError):
    """The coordinator's view of the transaction does not allow the step."""

    code = ErrorCode.INVALID_TXN_STATE
    fatal = True


class TransactionCoordinatorFenced(ApiError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class RefusedByCoordinator(ApiError):
    """What the coordinator of a transaction says to a partition that asks it."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        super().__init__(text, code=code)


# Of coordinators and groups.


class CoordinatorNotAvailable(ApiError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class CoordinatorLoadInProgress(ApiError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class NotCoordinator(ApiError):
    code = ErrorCode.NOT_COORDINATOR


class RebalanceInProgress(ApiError):
    """A commit while the group rebalances: poll to take part in it, then commit what is still owned."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class FencedInstance(ApiError):
    """Another consumer with the same `group.instance.id` has started since."""

    code = ErrorCode.FENCED_INSTANCE_ID
    fatal = True
    needs_abort = True


class InconsistentGroup(ApiError):
    """The members of the group have no assignor in common, or the group is of another type."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class GroupFull(ApiError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class GroupNotFound(ApiError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class GroupNotEmpty(ApiError):
    code = ErrorCode.NON_EMPTY_GROUP


# Of administration.


class NotController(ApiError):
    code = ErrorCode.NOT_CONTROLLER


class ControllerLost(ApiError):
    """The controller was deposed, or could not be heard, before it answered: it may have carried out what was asked."""

    code = ErrorCode.REQUEST_TIMED_OUT


class BrokerIdNotRegistered(ApiError):
    code = ErrorCode.BROKER_ID_NOT_REGISTERED


class TopicAlreadyExists(ApiError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class TopicDeletionDisabled(ApiError):
    code = ErrorCode.TOPIC_DELETION_DISABLED


class InvalidPartitions(ApiError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(ApiError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(ApiError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class NoReassignmentInProgress(ApiError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class InvalidConfig(ApiError):
    """A topic, broker or group key that the broker refuses."""

    code = ErrorCode.INVALID_CONFIG


class PolicyViolation(ApiError):
    code = ErrorCode.POLICY_VIOLATION
