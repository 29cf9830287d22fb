"""How handlers ask a group's coordinator."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from levada.broker.coordinator_call import call_coordinator
from levada.broker.coordinators import Operation
from levada.broker.route import Request
from levada.groups import GroupMachine
from levada.model.error_codes import ErrorCode

Reply = TypeVar("Reply")
Response = TypeVar("Response")


def ask(
    request: Request,
    group_id: str,
    operation: Operation[GroupMachine, Reply],
    answer: Callable[[Reply], Response],
    refuse: Callable[[ErrorCode], Response],
) -> Response | Awaitable[Response]:
    """`answer` makes a response of what the coordinator says, `refuse` of the error where there is no coordinator."""
    return call_coordinator(request.broker.groups, group_id, operation, answer, refuse)
