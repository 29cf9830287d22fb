"""Transactions, as state that is made of the records of `__transaction_state`.

`TransactionMachine` is one partition's whole state; it knows neither clock nor loop. `TransactionSettings` is what it
is told, `Transaction` and `TransactionState` are what it keeps. `MarkerWork` is what is left to do under `MARKERS`
when an outcome is decided. `GroupMember` and `GroupOutcome` are the group commit's question and answer.
"""

from levada.transactions.describing import TransactionFilter
from levada.transactions.group_commit import GroupMember, GroupOutcome, MemberOutcome
from levada.transactions.machine import TransactionMachine
from levada.transactions.markers import MARKERS, Marker, MarkerWork
from levada.transactions.settings import TransactionSettings
from levada.transactions.states import TransactionState
from levada.transactions.transaction import Transaction

__all__ = [
    "MARKERS",
    "GroupMember",
    "GroupOutcome",
    "Marker",
    "MarkerWork",
    "MemberOutcome",
    "Transaction",
    "TransactionFilter",
    "TransactionMachine",
    "TransactionSettings",
    "TransactionState",
]
