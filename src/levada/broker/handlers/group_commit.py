"""GroupCommit v0."""

from collections.abc import Awaitable

from levada.broker.coordinator_call import call_coordinator
from levada.broker.route import Request
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.messages.group_commit import GroupCommitRequest, GroupCommitResponse, GroupCommitResult
from levada.transactions import GroupMember, GroupOutcome

API = ApiKey.GROUP_COMMIT
VERSIONS = stable_versions(API)

LONGEST_IDS = 256 * 1024
"""Characters in the ids of all members."""
LONGEST_HASHED = 64 * 1024
"""Of ids whose coordinators are compared, which takes 50 ns for each character."""


def handle(message: GroupCommitRequest, request: Request) -> GroupCommitResponse | Awaitable[GroupCommitResponse]:
    """All members are coordinated by one partition, whose decision is one batch: so they are committed as one."""
    if not message.members:
        return _refused(message, ErrorCode.INVALID_REQUEST, request)
    if sum(len(one.transactional_id) for one in message.members) > LONGEST_IDS:
        return GroupCommitResponse(error_code=ErrorCode.INVALID_REQUEST, results=[])
    # Members whose epochs are exhausted need a producer id.
    return _commit(message, request) if request.broker.producer_ids.has_one else _commit_with_id(message, request)


async def _commit_with_id(message: GroupCommitRequest, request: Request) -> GroupCommitResponse:
    try:
        await request.broker.producer_ids.reserve()
    except ApiError as error:
        return _refused(message, error.code, request)
    committed = _commit(message, request)
    return await committed if isinstance(committed, Awaitable) else committed


def _commit(message: GroupCommitRequest, request: Request) -> GroupCommitResponse | Awaitable[GroupCommitResponse]:
    members = [GroupMember(one.transactional_id, one.producer_id, one.producer_epoch) for one in message.members]

    def answer(outcome: GroupOutcome) -> GroupCommitResponse:
        return _answered(message, outcome, request)

    return call_coordinator(
        request.broker.transactions,
        members[0].transactional_id,
        lambda machine, token, now_ms: machine.group_commit(token, members, now_ms),
        answer,
        lambda code: _refused(message, code, request),
    )


def _answered(message: GroupCommitRequest, outcome: GroupOutcome, request: Request) -> GroupCommitResponse:
    if outcome.error_code and not _have_one_coordinator(message, request):
        return _refused(message, ErrorCode.INVALID_REQUEST, request)
    return GroupCommitResponse(
        error_code=outcome.error_code,
        results=[
            GroupCommitResult(
                transactional_id=member.transactional_id,
                error_code=one.error_code,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
            )
            for member, one in zip(message.members, outcome.members)
        ],
    )


def _refused(message: GroupCommitRequest, code: ErrorCode, request: Request) -> GroupCommitResponse:
    if not _have_one_coordinator(message, request):
        code = ErrorCode.INVALID_REQUEST
    results = [GroupCommitResult(transactional_id=one.transactional_id, error_code=code) for one in message.members]
    return GroupCommitResponse(error_code=code, results=results)


def _have_one_coordinator(message: GroupCommitRequest, request: Request) -> bool:
    """Whether one partition has them all, as far as that is quick to find out.

    It does not matter when they were committed: a coordinator knows its own.
    """
    if sum(len(member.transactional_id) for member in message.members) > LONGEST_HASHED:
        return True
    coordinator = request.broker.transactions
    return len({coordinator.partition_of(member.transactional_id) for member in message.members}) == 1
