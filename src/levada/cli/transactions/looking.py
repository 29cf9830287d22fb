"""`list`, `describe` and `describe-producers`: what coordinators and partitions know of transactions."""

import argparse
import time
from dataclasses import asdict
from typing import Final

from levada.cli.kit.refusals import Refused
from levada.cli.kit.terminal import print_json
from levada.cli.transactions.tables import or_minus_one, or_none, print_table
from levada.client.blocking import Admin
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode

LISTED: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
DESCRIBED: Final = (
    "CoordinatorId", "TransactionalId", "ProducerId", "ProducerEpoch", "TransactionState", "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs", "TransactionDurationMs", "TopicPartitions",
)  # fmt: skip
PRODUCERS: Final = (
    "ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence", "LastTimestamp",
    "CurrentTransactionStartOffset",
)  # fmt: skip


def list_transactions(admin: Admin, arguments: argparse.Namespace) -> None:
    pattern = arguments.transactional_id_pattern
    try:
        found = admin.list_transactions(longer_than_ms=arguments.duration_filter, transactional_id_pattern=pattern)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_REGULAR_EXPRESSION:
            raise Refused(f"--transactional-id-pattern {pattern!r} is no regular expression (RE2)") from error
        raise
    found.sort(key=lambda listing: (listing.transactional_id, listing.coordinator))
    if arguments.json:
        print_json([asdict(listing) for listing in found])
        return
    print_table(LISTED, [(one.transactional_id, one.coordinator, one.producer_id, one.state) for one in found])


def describe(admin: Admin, arguments: argparse.Namespace) -> None:
    transactional_id = arguments.transactional_id
    try:
        found = admin.describe_transactions([transactional_id])[transactional_id]
    except KafkaError as error:
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise Refused(
                f"there is no transactional id {transactional_id!r}; `transactions list` prints those there are"
            ) from error
        raise
    duration_ms = None if found.start_ms is None else now_ms() - found.start_ms
    partitions = sorted(found.partitions)
    if arguments.json:
        document = {"transactional_id": transactional_id, **asdict(found), "duration_ms": duration_ms}
        print_json({**document, "partitions": [partition._asdict() for partition in partitions]})
        return
    row = (
        found.coordinator, transactional_id, found.producer_id, found.producer_epoch, found.state, found.timeout_ms,
        or_none(found.start_ms), or_none(duration_ms), ",".join(map(str, partitions)),
    )  # fmt: skip
    print_table(DESCRIBED, [row])


def describe_producers(admin: Admin, arguments: argparse.Namespace) -> None:
    check_broker(admin, arguments.broker_id)
    partition = named_partition(admin, arguments)
    found = admin.describe_producers([partition], broker_id=arguments.broker_id)[partition]
    if arguments.json:
        print_json([asdict(producer) for producer in found])
        return
    rows = [
        (
            one.producer_id, one.producer_epoch, or_minus_one(one.coordinator_epoch), one.last_sequence,
            one.last_timestamp_ms, or_none(one.transaction_start_offset),
        )
        for one in found
    ]  # fmt: skip
    print_table(PRODUCERS, rows)


def named_partition(admin: Admin, arguments: argparse.Namespace) -> TopicPartition:
    """Refused where it is not there; a client would look for it for seconds, as for one that was just made."""
    partitions = admin.describe_topics([arguments.topic])[arguments.topic].partitions
    if arguments.partition not in [partition.index for partition in partitions]:
        raise Refused(
            f"topic {arguments.topic} has no partition {arguments.partition}: they go from 0 to {len(partitions) - 1}"
        )
    return TopicPartition(arguments.topic, arguments.partition)


def check_broker(admin: Admin, broker_id: int | None) -> None:
    """Refused where it is not there: a client would wait a minute for it to come."""
    if broker_id is None:
        return
    there = sorted(broker.broker_id for broker in admin.describe_cluster().brokers)
    if broker_id not in there:
        raise Refused(f"there is no broker {broker_id}: the cluster has {', '.join(map(str, there))}")


def now_ms() -> int:
    return time.time_ns() // 1_000_000
