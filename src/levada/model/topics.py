"""What a topic may be called."""

from levada.model.errors import InvalidTopic

MAX_NAME_LENGTH = 249
LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, "__share_group_state"})
CLUSTER_METADATA = "__cluster_metadata"
"""The name of Apache's metadata log, which no topic may take."""


def check_topic_name(name: str) -> None:
    """Raise InvalidTopic for a name that could not be a directory's or would confuse a metric's."""
    fault = _fault(name)
    if fault is not None:
        raise InvalidTopic(f"Topic name is invalid: {fault}")


def _fault(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not LEGAL.issuperset(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def collision_key(name: str) -> str:
    """Equal for names that metrics cannot tell apart: they write `.` as `_`."""
    return name.replace(".", "_")
