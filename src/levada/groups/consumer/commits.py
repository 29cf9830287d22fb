"""Whose offsets count: a member's, as long as it has what it commits for."""

from collections.abc import Iterable
from dataclasses import dataclass

from levada.groups.consumer.group import ConsumerGroup
from levada.model.error_codes import ErrorCode

NO_EPOCH = -1

EPOCHS_SINCE = 9
"""Of OffsetCommit."""


@dataclass(frozen=True, slots=True)
class Committer:
    """What OffsetCommit or TxnOffsetCommit says of the member that commits."""

    member_id: str
    instance_id: str | None
    epoch: int
    version: int
    is_transactional: bool = False


def check_commit(group: ConsumerGroup, committer: Committer, partitions: Iterable[tuple[bytes, int]]) -> ErrorCode:
    """One code for all partitions, each given by its topic's id: what is refused for one is refused for all.

    An older epoch is good enough for partitions that the member has had since then or longer (KIP-1251).
    """
    epoch = committer.epoch
    if epoch < 0 and not group.members:
        return ErrorCode.NONE
    is_anonymous = epoch == NO_EPOCH and not committer.member_id and committer.instance_id is None
    if committer.is_transactional and is_anonymous:
        return ErrorCode.NONE
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    has_epochs = committer.is_transactional or committer.version >= EPOCHS_SINCE
    if not has_epochs and not member.uses_classic_protocol:
        return ErrorCode.UNSUPPORTED_VERSION
    if epoch == member.epoch:
        return ErrorCode.NONE
    refusal = _stale(uses_classic_protocol=member.uses_classic_protocol)
    if epoch > member.epoch:
        return refusal
    for topic_id, partition in partitions:
        since = member.assignment_epoch(topic_id, partition)
        if since is None or epoch < since:
            return refusal
    return ErrorCode.NONE


def check_fetch(group: ConsumerGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """OffsetFetch names a member since version 9; who names none is let through."""
    if member_id is None and epoch < 0:
        return ErrorCode.NONE
    member = None if member_id is None else group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if epoch != member.epoch:
        return _stale(uses_classic_protocol=member.uses_classic_protocol)
    return ErrorCode.NONE


def _stale(*, uses_classic_protocol: bool) -> ErrorCode:
    return ErrorCode.ILLEGAL_GENERATION if uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
