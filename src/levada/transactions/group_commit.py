"""The group commit: several transactions of one coordinator that commit together or not at all."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import NamedTuple

from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError
from levada.transactions.ending import prepare
from levada.transactions.records import NO_EPOCH, NO_PRODUCER_ID
from levada.transactions.states import COMMITTED, TransactionState
from levada.transactions.transaction import Transaction

MAX_MEMBERS = 1_000
GROUP_SIZE = 16
"""Bytes of a digest that stand for a group."""


class GroupMember(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int


class MemberOutcome(NamedTuple):
    """NONE with what the producer goes on with, or why not; OPERATION_NOT_ATTEMPTED if others are the reason."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class GroupOutcome:
    """NONE if all are committed, else the first reason; a line for each member, in the order of the request."""

    error_code: ErrorCode
    members: tuple[MemberOutcome, ...]


def commit_together(
    transactions: Mapping[str, Transaction],
    members: Sequence[GroupMember],
    new_producer_id: Callable[[], int],
    now_ms: int,
) -> list[Transaction] | GroupOutcome:
    """What follows for all members; or the answer, if they cannot be committed together or have been before."""
    codes = _check_request(members)
    if any(codes) or not codes:
        return _refused(codes)
    group = group_of(members)
    known = [transactions.get(member.transactional_id) for member in members]
    if all(one is not None and one.group == group and one.state in COMMITTED for one in known):
        return committed([one for one in known if one is not None])
    ready = [_ready(one, member) for one, member in zip(known, members)]
    if any(isinstance(one, ErrorCode) for one in ready):
        return _refused([one if isinstance(one, ErrorCode) else ErrorCode.NONE for one in ready])
    return _prepare([one for one in ready if isinstance(one, Transaction)], group, new_producer_id, now_ms)


def group_of(members: Sequence[GroupMember]) -> bytes:
    """Stands for these members; the same again for a client that repeats the request, in whatever order."""
    digest = sha256()
    for member in sorted(members, key=lambda one: one.transactional_id):
        text = member.transactional_id.encode(errors="surrogatepass")
        digest.update(b"%d %d %d " % (len(text), member.producer_id, member.producer_epoch) + text)
    return digest.digest()[:GROUP_SIZE]


def committed(transactions: Sequence[Transaction]) -> GroupOutcome:
    """The answer for members that are committed, whether their markers are written or not."""
    return GroupOutcome(
        ErrorCode.NONE, tuple([MemberOutcome(ErrorCode.NONE, *one.next_identity) for one in transactions])
    )


def _check_request(members: Sequence[GroupMember]) -> list[ErrorCode]:
    times = Counter([member.transactional_id for member in members])
    is_too_large = len(members) > MAX_MEMBERS
    return [
        ErrorCode.INVALID_REQUEST
        if is_too_large or not member.transactional_id or times[member.transactional_id] > 1
        else ErrorCode.NONE
        for member in members
    ]


def _ready(known: Transaction | None, member: GroupMember) -> Transaction | ErrorCode:
    if known is None:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if known.is_at(member.producer_id, member.producer_epoch):
        return known if known.state is TransactionState.ONGOING else ErrorCode.INVALID_TXN_STATE
    if known.state is not TransactionState.ONGOING and known.was_at(member.producer_id, member.producer_epoch):
        # It has ended on its own, and its epoch was bumped with that.
        return ErrorCode.INVALID_TXN_STATE
    is_other = known.producer_id != member.producer_id
    return ErrorCode.INVALID_PRODUCER_ID_MAPPING if is_other else ErrorCode.PRODUCER_FENCED


def _prepare(
    ready: Sequence[Transaction], group: bytes, new_producer_id: Callable[[], int], now_ms: int
) -> list[Transaction] | GroupOutcome:
    decided: list[Transaction] = []
    for one in ready:
        # Each ends as its own client would end it: with a new epoch, or in the classic way.
        try:
            following = prepare(
                one, TransactionState.PREPARE_COMMIT, one.client_version, new_producer_id, now_ms, group
            )
        except ApiError as error:
            following = error.code
        if isinstance(following, ErrorCode):
            return _refused([following if other is one else ErrorCode.NONE for other in ready])
        decided.append(following)
    return decided


def _refused(codes: Sequence[ErrorCode]) -> GroupOutcome:
    reason = next(chain((code for code in codes if code), [ErrorCode.INVALID_REQUEST]))
    return GroupOutcome(reason, tuple(MemberOutcome(code or ErrorCode.OPERATION_NOT_ATTEMPTED) for code in codes))
