"""The producer: accumulator, sender, idempotence, transactions."""

from penstock.client.producer.group_commit import TransactionTicket, salted_id
from penstock.client.producer.handle import Handle, ManyHandle
from penstock.client.producer.producer import Producer

__all__ = [
    "Handle",  # the outcome of one send
    "ManyHandle",  # of a bulk send
    "Producer",  # on asyncio
    "TransactionTicket",  # an open transaction, handed over
    "salted_id",  # a transactional id with the coordinator of another
]
