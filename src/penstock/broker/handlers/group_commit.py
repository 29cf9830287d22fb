"""GroupCommit v0."""

from penstock.broker.route import Request
from penstock.model.errors import ErrorCode, KafkaError
from penstock.protocol.api import ApiKey, stable_versions
from penstock.protocol.messages.group_commit import GroupCommitRequest, GroupCommitResponse, GroupCommitResult
from penstock.transactions import GroupMember, GroupOutcome

API = ApiKey.GROUP_COMMIT
VERSIONS = stable_versions(API)


async def handle(message: GroupCommitRequest, request: Request) -> GroupCommitResponse:
    """All members are coordinated by one partition, whose decision is one batch: so they are committed as one."""
    coordinator = request.broker.transactions
    members = [GroupMember(one.transactional_id, one.producer_id, one.producer_epoch) for one in message.members]
    homes = {coordinator.partition_of(member.transactional_id) for member in members}
    if len(homes) != 1:
        return _refused(message, ErrorCode.INVALID_REQUEST)
    try:
        await request.broker.producer_ids.reserve()
        outcome: GroupOutcome = await coordinator.submit(
            members[0].transactional_id,
            lambda machine, token, now_ms: machine.group_commit(token, members, now_ms),
        )
    except KafkaError as error:
        return _refused(message, error.code)
    return GroupCommitResponse(
        error_code=outcome.error_code,
        results=[
            GroupCommitResult(
                transactional_id=member.transactional_id,
                error_code=one.error_code,
                producer_id=one.producer_id,
                producer_epoch=one.producer_epoch,
            )
            for member, one in zip(members, outcome.members)
        ],
    )


def _refused(message: GroupCommitRequest, code: ErrorCode) -> GroupCommitResponse:
    results = [GroupCommitResult(transactional_id=one.transactional_id, error_code=code) for one in message.members]
    return GroupCommitResponse(error_code=code, results=results)
