"""Several producers' transactions committed as one; only brokers of our own can do it."""

from collections.abc import Sequence
from dataclasses import dataclass

from levada.client.cluster import Cluster, CoordinatorKind
from levada.client.errors import KafkaError, UnsupportedVersion, error_for
from levada.client.producer.transactions import ELSEWHERE
from levada.model.error_codes import ErrorCode
from levada.model.hashes import coordinator_partition
from levada.protocol.messages.group_commit import GroupCommitMember, GroupCommitRequest, GroupCommitResponse

TRANSACTION_TOPIC = "__transaction_state"


@dataclass(frozen=True, slots=True)
class TransactionTicket:
    """An open transaction that another producer may commit, on another machine even: it can be pickled."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


def salted_id(name: str, like: str, partition_count: int) -> str:
    """`name`, with a number behind it that brings it to the coordinator that `like` has.

    >>> salted_id("task-7", "driver", 50)
    'task-7~28'
    """
    wanted = coordinator_partition(like, partition_count)
    salt = 0
    while coordinator_partition(f"{name}~{salt}", partition_count) != wanted:
        salt += 1
    return f"{name}~{salt}"


class MemberRefused(KafkaError):
    """Another producer's transaction cannot be committed any more, so nothing was; this one has to be aborted."""

    needs_abort = True


async def commit_together(
    cluster: Cluster, tickets: Sequence[TransactionTicket], own_id: str
) -> list[TransactionTicket]:
    """Commit all or none; what each producer goes on with. Repeating it after a lost answer is safe."""
    leader = tickets[0].transactional_id
    members = [
        GroupCommitMember(
            transactional_id=ticket.transactional_id,
            producer_id=ticket.producer_id,
            producer_epoch=ticket.producer_epoch,
        )
        for ticket in tickets
    ]
    coordinator = await cluster.coordinator(CoordinatorKind.TRANSACTION, leader)
    try:
        response: GroupCommitResponse = await cluster.call(coordinator, GroupCommitRequest(members=members))
    except UnsupportedVersion as error:
        raise UnsupportedVersion(
            "these brokers cannot commit several transactions as one; commit each for itself"
        ) from error
    except KafkaError:
        cluster.forget_coordinator(CoordinatorKind.TRANSACTION, leader)
        raise
    if response.error_code in ELSEWHERE:
        cluster.forget_coordinator(CoordinatorKind.TRANSACTION, leader)
    _refuse(response, own_id)
    return [
        TransactionTicket(result.transactional_id, result.producer_id, result.producer_epoch)
        for result in response.results
    ]


def _refuse(response: GroupCommitResponse, own_id: str) -> None:
    """Raise for the member that is to blame; the others were not even tried."""
    for result in response.results:
        if result.error_code in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED):
            continue
        error = error_for(result.error_code, context=f"transactional id {result.transactional_id!r}")
        if error.retriable or result.transactional_id == own_id:
            raise error
        # That another producer is fenced must not be taken for the end of this one.
        raise MemberRefused(str(error), code=error.code)
    if response.error_code != ErrorCode.NONE:
        raise error_for(response.error_code, context="group commit")
