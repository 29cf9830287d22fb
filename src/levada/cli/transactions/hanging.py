"""`find-hanging`: transactions that are open in a partition and that no coordinator will end there (KIP-664)."""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Final

from levada.cli.kit.terminal import print_json, progress
from levada.cli.transactions.looking import check_broker, named_partition, now_ms
from levada.cli.transactions.tables import or_minus_one, print_table
from levada.client.admin import ActiveProducer, TransactionDescription
from levada.client.blocking import Admin
from levada.client.errors import KafkaError
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode

TITLE: Final = (
    "Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch", "StartOffset", "LastTimestamp",
    "Duration(min)",
)  # fmt: skip

AT_ONCE: Final = 500
"""Topics or partitions in a request: a broker may have very many."""

MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """As the partition sees it."""

    partition: TopicPartition
    producer: ActiveProducer

    def minutes(self, at_ms: int) -> int:
        return (at_ms - self.producer.last_timestamp_ms) // MINUTE_MS


def find_hanging(admin: Admin, arguments: argparse.Namespace) -> None:
    check_broker(admin, arguments.broker_id)
    longest_ms = arguments.max_transaction_timeout * MINUTE_MS
    partitions = _partitions(admin, arguments)
    old = [
        transaction
        for transaction in _open_transactions(admin, partitions, arguments.broker_id)
        if now_ms() - transaction.producer.last_timestamp_ms > longest_ms
    ]
    found = hanging(old, _coordinators_view(admin, {one.producer.producer_id for one in old}))
    found.sort(key=lambda one: (one.partition, one.producer.producer_id))
    _show(found, as_json=arguments.json)


def _partitions(admin: Admin, arguments: argparse.Namespace) -> list[TopicPartition]:
    if arguments.partition is not None:
        return [named_partition(admin, arguments)]
    topics = sorted(admin.list_topics(include_internal=True)) if arguments.topic is None else [arguments.topic]
    found = []
    for start in range(0, len(topics), AT_ONCE):
        described = admin.describe_topics(topics[start : start + AT_ONCE])
        described.raise_any()
        found += [
            TopicPartition(topic.name, partition.index)
            for topic in described.values()
            for partition in topic.partitions
            if arguments.broker_id is None or arguments.broker_id in partition.replicas
        ]
    return found


def _open_transactions(
    admin: Admin, partitions: list[TopicPartition], broker_id: int | None
) -> Iterator[OpenTransaction]:
    with progress("looking at partitions", len(partitions)) as shown:
        for start in range(0, len(partitions), AT_ONCE):
            found = admin.describe_producers(partitions[start : start + AT_ONCE], broker_id=broker_id)
            for partition in found:
                for producer in found[partition]:
                    if producer.transaction_start_offset is not None:
                        yield OpenTransaction(partition, producer)
            shown.advance(len(found))


def _coordinators_view(admin: Admin, producer_ids: set[int]) -> dict[int, TransactionDescription]:
    """What coordinators know of these producers; one that none of them knows is left out."""
    if not producer_ids:
        return {}
    listings = admin.list_transactions(producer_ids=sorted(producer_ids))
    ids = {one.producer_id: one.transactional_id for one in listings if one.producer_id in producer_ids}
    described = admin.describe_transactions(sorted(set(ids.values())))
    _raise_all_but(described.errors.values(), ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    known = described.done
    return {producer_id: known[name] for producer_id, name in ids.items() if name in known}


def _raise_all_but(errors: Iterable[KafkaError], code: ErrorCode) -> None:
    for error in errors:
        if error.code != code:
            raise error


def hanging(transactions: Iterable[OpenTransaction], known: dict[int, TransactionDescription]) -> list[OpenTransaction]:
    """Those whose coordinator does not count the partition among its own: it will never write a marker there."""
    return [
        transaction
        for transaction in transactions
        if transaction.producer.producer_id not in known
        or transaction.partition not in known[transaction.producer.producer_id].partitions
    ]


def _show(found: list[OpenTransaction], *, as_json: bool) -> None:
    at_ms = now_ms()
    if as_json:
        print_json(
            [
                {**one.partition._asdict(), **asdict(one.producer), "duration_minutes": one.minutes(at_ms)}
                for one in found
            ]
        )
        return
    rows = [
        (
            *one.partition, one.producer.producer_id, one.producer.producer_epoch,
            or_minus_one(one.producer.coordinator_epoch), or_minus_one(one.producer.transaction_start_offset),
            one.producer.last_timestamp_ms, one.minutes(at_ms),
        )
        for one in found
    ]  # fmt: skip
    print_table(TITLE, rows)
