"""Why a member is refused: inside this package an exception, outside a reply with its code and text."""

from levada.model.error_codes import ErrorCode
from levada.model.errors import shortened


class Refusal(Exception):
    def __init__(self, code: ErrorCode, text: str | None = None) -> None:
        super().__init__(text)
        self.code = code
        self.text = None if text is None else shortened(text)


def invalid(text: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, text)


def group_not_found(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def not_a_consumer_group(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")


def unknown_member(group_id: str, member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group_id}.")


def fenced_epoch(what: str) -> Refusal:
    """The member has to give up everything and join again."""
    return Refusal(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member {what}. The member must abandon all its partitions and rejoin.",
    )
