"""What a topic may be called."""

from penstock.model.errors import InvalidTopic

MAX_NAME_LENGTH = 249
LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def check_topic_name(name: str) -> None:
    """Raise InvalidTopic for a name that could not be a directory's or would confuse a metric's."""
    if not name:
        raise InvalidTopic("the empty string is not allowed as a topic name")
    if name in (".", ".."):
        raise InvalidTopic(f"topic name {name!r} is not allowed")
    if len(name) > MAX_NAME_LENGTH:
        raise InvalidTopic(f"a topic name has at most {MAX_NAME_LENGTH} characters, this one has {len(name)}")
    if not LEGAL.issuperset(name):
        raise InvalidTopic(f"topic name {name!r} has characters other than ASCII letters, digits, '.', '_' and '-'")


def collision_key(name: str) -> str:
    """Equal for names that metrics cannot tell apart: they write `.` as `_`."""
    return name.replace(".", "_")
