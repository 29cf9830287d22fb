"""`abort` and `forceTerminateTransaction`: transactions that are ended from outside."""

import argparse

from levada.cli.kit.refusals import Refused, changing
from levada.cli.transactions.looking import named_partition
from levada.client.admin import AbortTransaction
from levada.client.blocking import Admin
from levada.client.types import TopicPartition

OLDEST_EPOCH = 0
"""Not above any coordinator's, where the partition knows none: the first transaction of its producer hangs."""


def abort(admin: Admin, arguments: argparse.Namespace) -> None:
    partition = named_partition(admin, arguments)
    transaction = (
        AbortTransaction(
            partition,
            arguments.producer_id,
            arguments.producer_epoch,
            max(arguments.coordinator_epoch, OLDEST_EPOCH),
        )
        if arguments.start_offset is None
        else _transaction_at(admin, partition, arguments.start_offset)
    )
    with changing(f"aborting the transaction of producer {transaction.producer_id} in {partition}"):
        admin.abort_transaction(transaction)


def _transaction_at(admin: Admin, partition: TopicPartition, start_offset: int) -> AbortTransaction:
    for one in admin.describe_producers([partition])[partition]:
        if one.transaction_start_offset == start_offset:
            epoch = OLDEST_EPOCH if one.coordinator_epoch is None else one.coordinator_epoch
            return AbortTransaction(partition, one.producer_id, one.producer_epoch, epoch)
    raise Refused(
        f"no open transaction begins at offset {start_offset} of {partition}; `transactions describe-producers` prints"
        " where they begin"
    )


def force_terminate(admin: Admin, arguments: argparse.Namespace) -> None:
    with changing(f"aborting the transaction of {arguments.transactional_id!r}"):
        admin.fence_producers([arguments.transactional_id]).raise_any()
