"""A consumer's side of a fetch session (KIP-227): the broker remembers what is read, and is told only what changed."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from levada.model.error_codes import ErrorCode
from levada.protocol.declare import MAX_INT32
from levada.protocol.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

NO_SESSION = 0
FINAL_EPOCH = -1
"""Close the session, and do not open another."""
INITIAL_EPOCH = 0
"""Close the session, if there is one, and open another."""


class SessionKey(NamedTuple):
    """A topic that was made anew has another id, and is another topic."""

    topic: str
    topic_id: bytes
    partition: int


class Ask(NamedTuple):
    """From where to read a partition, and how much."""

    offset: int
    leader_epoch: int
    max_bytes: int


Topics: TypeAlias = list[FetchTopic]
Forgotten: TypeAlias = list[ForgottenTopic]


class SessionPart(NamedTuple):
    """What a session has to say in the next request."""

    session_id: int
    epoch: int
    topics: Topics
    forgotten: Forgotten


class FetchSession:
    """With one broker. A broker that keeps no session for us is told everything each time."""

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._uses_topic_ids = False
        self._told: dict[SessionKey, Ask | None] = {}

    @property
    def is_open(self) -> bool:
        return self._id != NO_SESSION

    def next_request(self, wanted: Mapping[SessionKey, Ask], *, uses_topic_ids: bool) -> SessionPart:
        """What to send so that the broker reads what is wanted, and nothing else."""
        if uses_topic_ids != self._uses_topic_ids:
            # A session speaks of topics in one way only.
            self._uses_topic_ids = uses_topic_ids
            self._epoch = INITIAL_EPOCH
        if self._epoch == INITIAL_EPOCH:
            self._told = dict(wanted)
            return SessionPart(self._id, INITIAL_EPOCH, _topics(wanted.items()), [])
        told = self._told
        gone = [key for key in told if key not in wanted]
        changed = [(key, ask) for key, ask in wanted.items() if told.get(key) != ask]
        for key in gone:
            del told[key]
        told.update(changed)
        return SessionPart(self._id, self._epoch, _topics(changed), _forgotten(gone))

    def has_read(self, key: SessionKey) -> None:
        """Data came for a partition: say again from where to read it, even if it is the same place."""
        if key in self._told:
            self._told[key] = None

    def answered(self, error_code: int, session_id: int) -> bool:
        """Take note of an answer; False if the broker refused the session, so that all has to be told again."""
        if error_code == ErrorCode.NONE:
            self._id = session_id
            if session_id == NO_SESSION:
                self._epoch = INITIAL_EPOCH
            else:
                self._epoch = 1 if self._epoch == MAX_INT32 else self._epoch + 1
            return True
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        return False

    def failed(self) -> None:
        """No answer came, so it is unknown what the broker remembers."""
        self._epoch = INITIAL_EPOCH

    def last_request(self) -> SessionPart:
        """What closes the session, so that the broker need not keep it until it is old."""
        part = SessionPart(self._id, FINAL_EPOCH, [], [])
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        return part


def _topics(asks: Iterable[tuple[SessionKey, Ask]]) -> Topics:
    topics: dict[tuple[str, bytes], FetchTopic] = {}
    for key, ask in asks:
        topic = topics.get(key[:2])
        if topic is None:
            topic = topics[key[:2]] = FetchTopic(topic=key.topic, topic_id=key.topic_id, partitions=[])
        topic.partitions.append(
            FetchPartition(
                partition=key.partition,
                current_leader_epoch=ask.leader_epoch,
                fetch_offset=ask.offset,
                partition_max_bytes=ask.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(keys: Iterable[SessionKey]) -> Forgotten:
    topics: dict[tuple[str, bytes], ForgottenTopic] = {}
    for key in keys:
        topic = topics.get(key[:2])
        if topic is None:
            topic = topics[key[:2]] = ForgottenTopic(topic=key.topic, topic_id=key.topic_id, partitions=[])
        topic.partitions.append(key.partition)
    return list(topics.values())
