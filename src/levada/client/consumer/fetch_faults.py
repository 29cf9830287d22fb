"""What to do about a partition that a broker did not read for us, error by error as Kafka's own consumer does."""

import logging

from levada.client.cluster import Cluster
from levada.client.consumer.fetched import Backlog, corrupt
from levada.client.consumer.subscription import Reset
from levada.client.errors import KafkaError, OffsetOutOfRange, error_for
from levada.model.error_codes import ErrorCode

logger = logging.getLogger("levada.client")

NEEDS_METADATA = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""Another broker leads, or none: the view of the cluster is old, or the cluster is about to change."""

PASSES = frozenset({ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR})
"""The broker has not heard of it yet, or stumbled."""


class FetchFaults:
    def __init__(self, cluster: Cluster, *, has_policy: bool) -> None:
        self._cluster = cluster
        self._has_policy = has_policy

    def note(self, backlog: Backlog, code: int, *, is_from_replica: bool) -> None:
        """A fetch of the partition failed; what concerns the user waits behind the records that came before."""
        state = backlog.state
        logger.debug("fetch of %s at %d: error %d", backlog.partition, backlog.fetch_offset, code)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE and not is_from_replica:
            backlog.failure = _out_of_range(backlog)
            return
        if code == ErrorCode.CORRUPT_MESSAGE:
            backlog.failure = corrupt(backlog.partition, backlog.fetch_offset, "the broker says that it is damaged")
            return
        if is_from_replica:
            # The leader knows better where to read.
            state.read_replica = None
        failure = error_for(code, context=str(backlog.partition))
        if code in NEEDS_METADATA or failure.refreshes_metadata:
            self._cluster.refresh_soon()
        elif code not in PASSES and not failure.retriable and not is_from_replica:
            backlog.failure = failure
            return
        self._pause(backlog)

    def face(self, backlog: Backlog) -> None:
        """All records before the failure are read: begin elsewhere where the policy says so, else raise it."""
        failure, backlog.failure = backlog.failure, None
        assert failure is not None
        if isinstance(failure, OffsetOutOfRange) and self._has_policy:
            logger.info("%s has no offset %d (any more): reset", backlog.partition, backlog.fetch_offset)
            backlog.state.reset = Reset.POLICY
            return
        # Tried again later, as it may have passed by then; so the user hears of it in each poll until it has.
        self._pause(backlog)
        raise failure

    def _pause(self, backlog: Backlog) -> None:
        backlog.retry_at_ms = self._cluster.world.clock.monotonic_ms() + self._cluster.backoff.pause_ms(1)


def _out_of_range(backlog: Backlog) -> KafkaError:
    offsets = {backlog.partition: backlog.fetch_offset}
    text = (
        f"{backlog.partition} has no offset {backlog.fetch_offset}, and auto.offset.reset is none: "
        "seek to where to go on, or set a policy"
    )
    return OffsetOutOfRange(text, offsets=offsets)
