"""Writes docs/compatibility.md from the registry of APIs: `python -m tools.compatibility [--check]`."""

import sys
from pathlib import Path

from levada.broker.handlers import HANDLERS
from levada.broker.route import Route, routes_of
from levada.protocol.api import ApiKey, stable_versions
from tools.tool_differences import section

PAGE = Path(__file__).parents[1] / "docs" / "compatibility.md"

NOTES = {
    ApiKey.PRODUCE: "Versions 0-2 are advertised and refused, as Apache does (KAFKA-18659).",
    ApiKey.FETCH: "Sessions (KIP-227). No fetching by replicas, no reading from followers.",
    ApiKey.LIST_OFFSETS: "Earliest, latest, by timestamp, newest record, local start; no tiered storage.",
    ApiKey.FIND_COORDINATOR: "Groups and transactions; INVALID_REQUEST for share groups.",
    ApiKey.CREATE_TOPICS: "Replication factor 1: brokers do not copy records from each other yet.",
    ApiKey.SASL_HANDSHAKE: "ILLEGAL_SASL_STATE, as Apache on a plain listener.",
    ApiKey.SASL_AUTHENTICATE: "See SaslHandshake.",
    ApiKey.API_VERSIONS: "Features: `metadata.version`, `transaction.version`, `group.version`.",
    ApiKey.DESCRIBE_ACLS: "SECURITY_DISABLED, as Apache without an authorizer.",
    ApiKey.CREATE_ACLS: "See DescribeAcls.",
    ApiKey.DELETE_ACLS: "See DescribeAcls.",
    ApiKey.DESCRIBE_CONFIGS: "Topics, groups, brokers and their loggers; other resources get INVALID_REQUEST.",
    ApiKey.ALTER_CONFIGS: "Topics, groups and brokers, as Apache.",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "See DescribeConfigs.",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "Replicas can be taken away and put in another order; a broker without a copy "
    "is refused, since brokers do not copy from each other yet.",
    ApiKey.UNREGISTER_BROKER: "A broker that is alive is refused (INVALID_REQUEST).",
    ApiKey.DESCRIBE_QUORUM: "The active controller is the only voter, the other brokers are observers: there is no "
    "quorum of ours ([why](decisions/metadata-log.md)).",
    ApiKey.UPDATE_FEATURES: "`metadata.version` is never lowered.",
    ApiKey.BROKER_REGISTRATION: "Of brokers, and refused on the listeners of clients; so the next ones.",
    ApiKey.LIST_GROUPS: "Classic and consumer groups.",
    ApiKey.LIST_CONFIG_RESOURCES: "Nothing of client metrics, which are not served.",
}

HEAD = """\
# Compatibility

What this broker serves, beside Apache Kafka 4.3. This page is generated (`make docs`) from the registry that also
answers ApiVersions, and a test keeps it current.

## APIs

| key | API | Apache 4.3 | served here | notes |
| --- | --- | --- | --- | --- |
"""

TAIL = """
Two APIs are ours alone: GroupCommit (key 32000) commits several transactions as one. It is told only to clients that name
themselves `levada` in ApiVersions. [How it works](decisions/group-commit.md). AwaitMetadata (key 32001) is for brokers, which
hear by it at once of what their controller has decided.

There is no quorum of controllers as in KRaft: one machine's brokers share a directory, and what several machines have to agree
on is left to a coordinator made for that. [Why](decisions/metadata-log.md). Tools that ask for the quorum are told of the
active controller.

An API that is not served is not advertised, and a request for it closes the connection, as Apache does.

## Clients that are tested

| client | where | what |
| --- | --- | --- |
| confluent-kafka (librdkafka) | `make test` | every codec and acks, idempotence, transactions, groups of both protocols, offsets by time, administration |
| kafka-python | `make test` | every codec and acks, idempotence, transactions, groups, offsets by time, administration |
| aiokafka | `make test` | every codec and acks, idempotence, transactions, groups |
| kcat | `make interop` | every codec and acks, sizes, nulls, headers, metadata, groups |
| kafkajs | `make interop` | every codec and acks, idempotence, groups |
| Apache's Java clients 4.3, by its own tools | `make interop` | producing, groups of both protocols, offsets reset, groups deleted, features, transactions listed |

## Known differences to Apache

| where | Apache | here |
| --- | --- | --- |
| compressed batches on Produce | opened, and every record checked | checked by their header and CRC; opened only where the topic is compacted, wants another codec, or the header's times are out of bounds |
| a record's `maxTimestamp` in a compressed batch | recomputed from the records | taken from the header |
| a compressed batch that cannot be read, where it is opened | UNKNOWN_SERVER_ERROR | INVALID_RECORD |
| offsets inside a compressed batch other than 0, 1, 2, where it is opened | refused, or renumbered when the codec changes | INVALID_RECORD |
| a transactional batch without a producer id | stored | INVALID_RECORD |
| what a compressed batch may unpack to, where it is opened | bounded by memory | 64 MiB or `max.message.bytes`; MESSAGE_TOO_LARGE beyond |
| a search by time that meets batches that unpack to more than that, or many that do not have the time their headers claim | bounded by memory | KAFKA_STORAGE_ERROR |
| very large requests | bounded by `socket.request.max.bytes` | also by 1,000,000 elements, and 10,000 where they cannot be handled one by one (JoinGroup, SyncGroup, partitions of one transaction; 50,000 topics in CreateTopics and DescribeTopicPartitions, 200,000 partitions in Fetch); the connection is closed beyond |
| DescribeTopicPartitions of topics that are not there | all in one answer | at most `max.request.partition.size.limit` in one, with a cursor |
| requests of one connection | handled one at a time | started in order and answered in order; up to 64 may wait at once |
| auto-created topic | first answer UNKNOWN_TOPIC_OR_PARTITION | the topic is ready in the first answer |
| UnregisterBroker of a live broker | forgets it until it registers again | refused |
| a partition whose only replica is in a directory that is not there at a start | made anew, empty, if no directory is known to be offline | offline until the directory is back |
| a full disk | takes the directory offline | what does not fit is refused; the directory stays in use |
| a directory that was taken away | noticed by the next operation that fails there | noticed within a second |
| AlterReplicaLogDirs | records are read and appended again | files are copied; the last megabyte of a log is not throttled |
| both a replica and its copy found at a start | refused | the copy, if the broker had moved the replica; else refused |
| retention of compacted logs | in the rounds of the cleaner | with that of the others, every `log.retention.check.interval.ms` |
| several batches that a producer repeats after a restart | the last one is known, those before it are OUT_OF_ORDER_SEQUENCE_NUMBER | all are known |
| the indexes of an active segment on disk | written as records come | every second, of 100 logs at most; rebuilt after a crash, as Apache's are |
| a batch older than a producer's last five | OUT_OF_ORDER_SEQUENCE_NUMBER | DUPLICATE_SEQUENCE_NUMBER, which clients take for success |
| a segment whose end a power cut took, with the next one still there | kept, with a hole in the offsets | what stands behind the hole is cut off, and said |
| `dump-log` of magic 0 and 1 | printed | refused |
| `dump-log` decoders of internal topics | decoded | `--offsets-decoder` and `--transaction-log-decoder`, without the records of share and streams groups |
| a transaction that has ended above the high watermark, after a restart or a truncation | stable at once | stable when the high watermark has passed its marker |
| an unflushed batch whose offset is not the next one, found by recovery | kept, as a gap | cut off, unless the topic is compacted: the CRC does not cover offsets |
| a coordinator's partition that is damaged | loaded without a look at checksums, or NOT_COORDINATOR until a restart or another leader | checksums count; NOT_COORDINATOR until an attempt, every 30 s, succeeds |
| the topic's id in records of offsets | of OffsetCommit v10 alone | of every commit, also in transactions; not where a client says how long an offset is kept (v2-4), whose record has no place for it |
| offsets of a deleted topic whose ends could not be written, for one of the same name | told to clients that go by names | not told; ended by the next cleanup |
| the first FindCoordinator for a group | COORDINATOR_NOT_AVAILABLE while `__consumer_offsets` is made | answered when it is there |
| `MetadataHash` in records of consumer groups (KIP-1101) | XXH3 | BLAKE2b; a group that moves between the two sees one rebalance |
| InitProducerId of an instance that was replaced, while its successor has a transaction open | that transaction is aborted, then PRODUCER_FENCED | PRODUCER_FENCED; the transaction goes on |
| EndTxn v5 of an instance that a classic one has replaced | may be taken for a repetition | PRODUCER_FENCED |
| a marker larger than its topic's `max.message.bytes` | refused: the transaction stays PrepareCommit or PrepareAbort | written |
| markers of a group commit | there is none | each has a header `levada-group-commit`, which readers pass over; all other markers are as Apache's |
| CreatePartitions with more than 10,000 new partitions | UNKNOWN_SERVER_ERROR | POLICY_VIOLATION |
| CreateTopics and its kin | answered when the controller has decided | answered when this broker also shows it |
| a request that is forwarded to a controller which dies before it answers | asked for again: DeleteTopics may say UNKNOWN_TOPIC_OR_PARTITION of what it has just deleted | REQUEST_TIMED_OUT: it may have been carried out |
| `controller_id` in Metadata and DescribeCluster | any broker that is alive | the active controller, or the broker that is asked while it knows of none |
| transactions whose partitions are on several brokers | served | not yet: they end when all their partitions are on the coordinator's broker |
| quotas, authorizers, client metrics | served | not served yet |
"""


def page() -> str:
    routes = routes_of(HANDLERS)
    rows = [_row(key, routes.get(key)) for key in ApiKey if not key.is_private]
    return HEAD + "\n".join(rows) + "\n" + TAIL + section()


def _row(key: ApiKey, route: Route | None) -> str:
    apache = _range(stable_versions(key))
    served = "-" if route is None else _range(route.versions)
    note = NOTES.get(key, "") if route is not None else ""
    return f"| {int(key)} | {key.title} | {apache} | {served} | {note} |"


def _range(versions: range) -> str:
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}-{versions[-1]}"


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
