"""The producer: accumulator, sender, idempotence, transactions."""

from levada.client.producer.group_commit import TransactionTicket, salted_id
from levada.client.producer.handle import Handle, ManyHandle
from levada.client.producer.producer import Producer

__all__ = [
    "Handle",  # the outcome of one send
    "ManyHandle",  # of a bulk send
    "Producer",  # on asyncio
    "TransactionTicket",  # an open transaction, handed over
    "salted_id",  # a transactional id with the coordinator of another
]
