"""The states of a transaction, and which may follow which."""

from enum import Enum


class State(Enum):
    """Numbers as the records have them, names as DescribeTransactions tells them."""

    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")
    DEAD = (6, "Dead")
    PREPARE_EPOCH_FENCE = (7, "PrepareEpochFence")

    def __init__(self, number: int, title: str) -> None:
        self.number = number
        self.title = title

    # Each is one object, and Enum's own hash is a function in Python: every step asks several tables.
    __hash__ = object.__hash__


BY_NUMBER = {state.number: state for state in State}
BY_TITLE = {state.title: state for state in State}

IDLE = frozenset({State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT})
"""No transaction is open: another may begin, the producer may be initialized, the id may expire."""

DECIDED = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
"""The outcome is written; it remains to tell the partitions. Nothing but that changes such a transaction."""

COMMITTED = frozenset({State.PREPARE_COMMIT, State.COMPLETE_COMMIT})

NEXT: dict[State, frozenset[State]] = {
    # Since transactions of version 2 a client that is not sure whether it has begun aborts anyway (KIP-890).
    State.EMPTY: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.ONGOING: frozenset({State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT, State.PREPARE_EPOCH_FENCE}),
    State.PREPARE_COMMIT: frozenset({State.COMPLETE_COMMIT}),
    State.PREPARE_ABORT: frozenset({State.COMPLETE_ABORT}),
    State.COMPLETE_COMMIT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.COMPLETE_ABORT: frozenset({State.EMPTY, State.ONGOING, State.PREPARE_ABORT, State.DEAD}),
    State.DEAD: frozenset(),
    # Fencing is one step with the abort it leads to, so no record ever says that it is under way.
    State.PREPARE_EPOCH_FENCE: frozenset({State.PREPARE_ABORT}),
}
"""The states that may follow each."""
