"""What decisions about consumer groups rest on beside the groups: settings, the image, chance, and timers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from levada.coordination.timers import Deadlines
from levada.groups.consumer.regexes import Resolution
from levada.groups.consumer.settings import ConsumerGroupSettings
from levada.groups.consumer.topics import TopicHashes
from levada.groups.group import Group
from levada.metadata.image import Image
from levada.model.hashes import uuid_to_text


class ConsumerTimerKind(Enum):
    SESSION = "a member that is not heard of is gone"
    REBALANCE = "a member that does not give up partitions in time is fenced"
    REGEX = "regular expressions are to be matched with the topics"
    JOIN = "a classic member that was told to join again has not"
    SYNC = "a classic member that has joined has not asked for its assignment"


class ConsumerTimer(NamedTuple):
    """Hardly one is cancelled: a timer that fires looks at what has become of its member."""

    group_id: str
    kind: ConsumerTimerKind
    member_id: str = ""


@dataclass(frozen=True, slots=True)
class Client:
    """The client that sent a request."""

    client_id: str
    client_host: str
    """As Apache writes it: "/127.0.0.1"."""
    version: int
    """Of the request."""


@dataclass(slots=True)
class GroupContext:
    settings: ConsumerGroupSettings
    timers: Deadlines[ConsumerTimer]
    random_bytes: Callable[[int], bytes]
    image: Callable[[], Image]
    group_config: Callable[[str], Mapping[str, str]]
    """What is set for a group itself."""
    find_classic: Callable[[str], Group | None]
    """The classic group of an id, also one that is nothing but a place for offsets."""
    hashes: TopicHashes = field(default_factory=TopicHashes)
    new_topics_at: int = -1
    """The offset of the last image that brought a topic."""
    resolutions: dict[str, Resolution] = field(default_factory=dict)
    """By group, regular expressions that are being matched."""
    told_to_join: dict[ConsumerTimer, None] = field(default_factory=dict)
    """Classic members that have been told to join again and have not, by the timer that ends their time for it."""
    downgrades: list[Group] = field(default_factory=list)
    """Classic groups that come to be with the records of the last decision."""

    def new_member_id(self) -> str:
        while (text := uuid_to_text(self.random_bytes(16))).startswith("-"):
            # It would look like an option on a command line.
            continue
        return text

    def restart_session(self, group_id: str, member_id: str, now_ms: int, timeout_ms: int | None = None) -> None:
        """For a classic member the timeout is its own."""
        if timeout_ms is None:
            timeout_ms = self.settings.session_timeout_ms(self.group_config(group_id))
        self.timers.set(ConsumerTimer(group_id, ConsumerTimerKind.SESSION, member_id), now_ms + timeout_ms)
