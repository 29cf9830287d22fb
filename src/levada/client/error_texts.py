"""What to do about Kafka's error codes, where a user of a client can do something."""

from levada.model.error_codes import ErrorCode

_E = ErrorCode

_COORDINATOR = "the group's or transaction's coordinator is moving or loading; it comes back by itself"
_REPLICAS = (
    "fewer replicas are in sync than min.insync.replicas asks for; start the missing brokers, "
    "or lower min.insync.replicas if the records may be lost"
)
_LEFT = "the group has gone on without this member; poll to join it again"

ADVICE: dict[ErrorCode, str] = {
    _E.UNKNOWN_SERVER_ERROR: "the broker's log has the reason",
    _E.OFFSET_OUT_OF_RANGE: "the log does not have this offset; seek, or set auto.offset.reset to earliest or latest",
    _E.CORRUPT_MESSAGE: "the bytes were damaged on the way or on the broker's disk",
    _E.UNKNOWN_TOPIC_OR_PARTITION: "check the name, create the topic, or ask for the right to see it",
    _E.LEADER_NOT_AVAILABLE: "the partition has no leader; are the brokers of its replicas up?",
    _E.REQUEST_TIMED_OUT: "the broker could not finish in time; are the replicas keeping up?",
    _E.MESSAGE_TOO_LARGE: "send smaller records or compress them, or raise the topic's max.message.bytes",
    _E.OFFSET_METADATA_TOO_LARGE: "commit less metadata, or raise the broker's offset.metadata.max.bytes",
    _E.COORDINATOR_LOAD_IN_PROGRESS: _COORDINATOR,
    _E.COORDINATOR_NOT_AVAILABLE: _COORDINATOR,
    _E.NOT_COORDINATOR: _COORDINATOR,
    _E.INVALID_TOPIC_EXCEPTION: "a topic's name has at most 249 letters, digits, '.', '_' and '-'",
    _E.RECORD_LIST_TOO_LARGE: "lower batch.size, or raise the topic's segment.bytes",
    _E.NOT_ENOUGH_REPLICAS: _REPLICAS,
    _E.NOT_ENOUGH_REPLICAS_AFTER_APPEND: f"the record is in the leader's log and may come twice; {_REPLICAS}",
    _E.ILLEGAL_GENERATION: _LEFT,
    _E.UNKNOWN_MEMBER_ID: _LEFT,
    _E.FENCED_MEMBER_EPOCH: _LEFT,
    _E.STALE_MEMBER_EPOCH: _LEFT,
    _E.INCONSISTENT_GROUP_PROTOCOL: (
        "the members of the group have no assignor in common; give all the same partition.assignment.strategy, "
        "in two rolling restarts where some have members of the old one"
    ),
    _E.INVALID_GROUP_ID: "set group.id",
    _E.INVALID_SESSION_TIMEOUT: (
        "session.timeout.ms lies outside the broker's group.min.session.timeout.ms to group.max.session.timeout.ms"
    ),
    _E.REBALANCE_IN_PROGRESS: "poll to take part in the rebalance, then commit what is still owned",
    _E.TOPIC_AUTHORIZATION_FAILED: "the cluster's ACLs do not allow this on the topic",
    _E.GROUP_AUTHORIZATION_FAILED: "the cluster's ACLs do not allow this on the group",
    _E.CLUSTER_AUTHORIZATION_FAILED: "the cluster's ACLs do not allow this on the cluster",
    _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "the cluster's ACLs do not allow this transactional.id",
    _E.INVALID_TIMESTAMP: (
        "the record's time is further off than the topic's message.timestamp.before.max.ms and "
        "message.timestamp.after.max.ms allow"
    ),
    _E.UNSUPPORTED_VERSION: "the broker does not serve this request in a version that this client speaks",
    _E.INVALID_REPLICATION_FACTOR: "there are not that many brokers",
    _E.NOT_CONTROLLER: "the controller is moving; it comes back by itself",
    _E.INVALID_TRANSACTION_TIMEOUT: "transaction.timeout.ms is above the broker's transaction.max.timeout.ms",
    _E.CONCURRENT_TRANSACTIONS: "the previous transaction of this id is still being completed",
    _E.TRANSACTION_COORDINATOR_FENCED: "the coordinator has moved; try again",
    _E.OUT_OF_ORDER_SEQUENCE_NUMBER: "the broker misses records before these, which may be lost",
    _E.UNKNOWN_PRODUCER_ID: "the broker has forgotten this producer, whose last records may have been deleted",
    _E.INVALID_PRODUCER_EPOCH: (
        "the transaction ran past transaction.timeout.ms, or another producer with this transactional.id has started"
    ),
    _E.PRODUCER_FENCED: "another producer with this transactional.id has started; close this one",
    _E.TRANSACTION_ABORTABLE: "abort the transaction and begin it again",
    _E.INVALID_PRODUCER_ID_MAPPING: "the coordinator has forgotten this transactional.id; abort, then begin again",
    _E.KAFKA_STORAGE_ERROR: "a disk of the broker has failed; another replica takes over",
    _E.SASL_AUTHENTICATION_FAILED: "check the user's name and secret",
    _E.NON_EMPTY_GROUP: "stop the group's members first",
    _E.GROUP_MAX_SIZE_REACHED: "the group has as many members as the broker's group.max.size allows",
    _E.FENCED_INSTANCE_ID: "another consumer with this group.instance.id has started; each needs its own",
    _E.UNRELEASED_INSTANCE_ID: "the consumer that has this group.instance.id is still in the group",
    _E.UNSUPPORTED_ASSIGNOR: "set group.remote.assignor to one of the broker's group.consumer.assignors",
    _E.GROUP_SUBSCRIBED_TO_TOPIC: "the group's members are subscribed to the topic; stop them first",
    _E.UNSUPPORTED_COMPRESSION_TYPE: "choose another compression.type",
    _E.INVALID_RECORD: "a record of a compacted topic needs a key",
    _E.UNSTABLE_OFFSET_COMMIT: "a transaction that commits these offsets is not complete yet",
    _E.THROTTLING_QUOTA_EXCEEDED: "slow down, or raise the quota",
    _E.TOPIC_DELETION_DISABLED: "the brokers have delete.topic.enable=false",
    _E.UNKNOWN_TOPIC_ID: "the topic was deleted, or deleted and created again",
}
"""What to do, where there is something to do."""
