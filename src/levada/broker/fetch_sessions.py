"""Fetch sessions (KIP-227): what a client reads is remembered here, so that it asks for, and is told, only changes."""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from levada.broker.metrics import TopicMetrics
from levada.broker.partition import Partition
from levada.model.errors import FetchSessionIdNotFound, FetchSessionTopicIdError, InvalidFetchSessionEpoch
from levada.protocol.declare import MAX_INT32, NO_UUID
from levada.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

NO_SESSION = 0
FINAL_EPOCH = -1
"""Close the session, and do not open another."""
INITIAL_EPOCH = 0
"""Close the session, and open another."""
UNKNOWN_OFFSET = -1

MIN_EVICTION_MS = 120_000
"""A session that is as old as this may give way to a larger one, one that is unused for as long to any."""

MAX_PARTITIONS = 500_000
"""Of all sessions together: each takes some hundred bytes, and a client can ask for any number of them."""

Key: TypeAlias = tuple[bytes | str, int]
Rank: TypeAlias = tuple[bool, int, int]
"""Whether a follower has it, how many partitions it has, its id: of several sessions the lowest goes first."""


class WaitingFetch(Protocol):
    """A fetch that found too little."""

    def on_change(self, size: int) -> None:
        """So many bytes came to a partition of its session, or 0 and something else changed."""
        ...

    def expire(self) -> None:
        """Answer now."""
        ...


class WantedPartition:
    """A partition that a session reads, and what its client knows of it. Watches the partition once for all fetches."""

    __slots__ = (
        "ask", "counters", "index", "partition", "sent_high_watermark", "sent_log_start", "session", "topic",
        "topic_id",
    )  # fmt: skip

    def __init__(self, topic: str | None, topic_id: bytes, ask: FetchPartition) -> None:
        self.topic = topic
        """None while the id is of no topic that this broker knows."""
        self.topic_id = topic_id
        self.index = ask.partition
        self.ask = ask
        """As the client named it last."""
        self.sent_high_watermark = UNKNOWN_OFFSET
        self.sent_log_start = UNKNOWN_OFFSET
        self.partition: Partition | None = None
        self.counters: TopicMetrics | None = None
        self.session: FetchSession | None = None
        """Only while it watches, so that a fetch without a session leaves no cycle behind."""

    def __call__(self, partition: Partition, size: int) -> None:
        session = self.session
        assert session is not None, "only a session watches"
        session.dirty[self] = None
        if session.waiter is None:
            return
        if size and partition.log.high_watermark <= self.ask.fetch_offset:
            # Appended, but not committed: the high watermark will tell when it may be read.
            return
        session.waiter.on_change(size)

    def resolve(self, partition: Partition, counters: TopicMetrics) -> None:
        """From now on this is the replica to read from."""
        self.partition = partition
        self.counters = counters
        if self.session is not None:
            partition.watch(self)


class FetchSession:
    """The partitions of one client. A fetch without a session has one too, with id 0 and for itself alone."""

    __slots__ = (
        "created_ms", "dirty", "epoch", "id", "is_privileged", "is_settled", "is_watching", "partitions", "size",
        "used_ms", "uses_topic_ids", "waiter",
    )  # fmt: skip

    def __init__(self, *, uses_topic_ids: bool, is_privileged: bool) -> None:
        self.id = NO_SESSION
        self.epoch = FINAL_EPOCH
        """Of the next request."""
        self.uses_topic_ids = uses_topic_ids
        self.is_privileged = is_privileged
        self.partitions: dict[Key, WantedPartition] = {}
        self.dirty: dict[WantedPartition, None] = {}
        """Those where reading may bring something new, in the order in which it is their turn."""
        self.waiter: WaitingFetch | None = None
        self.is_watching = False
        self.created_ms = 0
        self.used_ms = 0
        self.size = 0
        """How many partitions it had when it was last used."""
        self.is_settled = False

    def want(self, topics: Iterable[FetchTopic]) -> None:
        """Add partitions, or change from where and how they are read."""
        partitions, dirty = self.partitions, self.dirty
        for topic in topics:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for ask in topic.partitions:
                wanted = partitions.get((name, ask.partition))
                if wanted is None:
                    wanted = self._add(topic, ask)
                else:
                    wanted.ask = ask
                dirty[wanted] = None

    def _add(self, topic: FetchTopic, ask: FetchPartition) -> WantedPartition:
        if self.uses_topic_ids:
            wanted = self.partitions[topic.topic_id, ask.partition] = WantedPartition(None, topic.topic_id, ask)
        else:
            wanted = self.partitions[topic.topic, ask.partition] = WantedPartition(topic.topic, NO_UUID, ask)
        if self.is_watching:
            wanted.session = self
        return wanted

    def forget(self, topics: Iterable[ForgottenTopic]) -> None:
        for topic in topics:
            name = topic.topic_id if self.uses_topic_ids else topic.topic
            for index in topic.partitions:
                wanted = self.partitions.pop((name, index), None)
                if wanted is not None:
                    self.dirty.pop(wanted, None)
                    _unwatch(wanted)

    def watch(self) -> None:
        """Hear of every change from now on."""
        if self.is_watching:
            return
        self.is_watching = True
        for wanted in self.partitions.values():
            wanted.session = self
            if wanted.partition is not None:
                wanted.partition.watch(wanted)

    def unwatch(self) -> None:
        self.is_watching = False
        for wanted in self.partitions.values():
            _unwatch(wanted)


def _unwatch(wanted: WantedPartition) -> None:
    wanted.session = None
    if wanted.partition is not None:
        wanted.partition.unwatch(wanted)


class FetchSessions:
    """All sessions, in the order of their last use. When there is no room, the rules of Apache's cache say who goes."""

    def __init__(self, below: Callable[[int], int], max_sessions: int) -> None:
        self._below = below
        self.max_sessions = max_sessions
        self.partition_count = 0
        """Over all sessions."""
        self.evictions = 0
        self._sessions: dict[int, FetchSession] = {}
        self._evictable_by_all: list[Rank] = []
        self._evictable_by_privileged: list[Rank] = []

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(self, request: FetchRequest, *, uses_topic_ids: bool, is_privileged: bool, now_ms: int) -> FetchSession:
        """The session that a request belongs to, brought up to date with it; ApiError where there is none such."""
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            former = self._sessions.get(request.session_id)
            if former is not None:
                self._remove(former)
            return _new_session(request, uses_topic_ids, is_privileged)
        session = self._sessions.get(request.session_id)
        if session is None:
            raise FetchSessionIdNotFound(f"there is no session {request.session_id}")
        if session.epoch != request.session_epoch:
            raise InvalidFetchSessionEpoch(f"the epoch is {session.epoch}, not {request.session_epoch}")
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError("a session goes by names or by ids from its beginning to its end")
        session.want(request.topics)
        if request.forgotten_topics_data:
            session.forget(request.forgotten_topics_data)
            if not session.partitions:
                self._remove(session)
                return _new_session(request, uses_topic_ids, is_privileged)
        session.epoch = session.epoch + 1 if session.epoch < MAX_INT32 else INITIAL_EPOCH + 1
        self._use(session, now_ms)
        if self.partition_count > MAX_PARTITIONS:
            self._remove(session)
            raise FetchSessionIdNotFound("there is no room for a session of so many partitions")
        if session.waiter is not None:
            # A fetch that its client has given up; it learns from the epoch that it is out of turn.
            session.waiter.expire()
        return session

    def keep(self, session: FetchSession, now_ms: int) -> None:
        """Give the session of a full fetch an id, if there is room for it; without one it is over with its fetch."""
        size = len(session.partitions)
        while self.partition_count + size > MAX_PARTITIONS:
            oldest = next(iter(self._sessions.values()), None)
            if oldest is None or now_ms - oldest.used_ms <= MIN_EVICTION_MS:
                return
            self._remove(oldest)
            self.evictions += 1
        if len(self._sessions) >= self.max_sessions and not self._evict_for(session, size, now_ms):
            return
        session.id = self._new_id()
        session.epoch = INITIAL_EPOCH + 1
        session.created_ms = now_ms
        session.watch()
        self._sessions[session.id] = session
        self._use(session, now_ms)

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._below(MAX_INT32 - 1)
            if session_id not in self._sessions:
                return session_id

    def _use(self, session: FetchSession, now_ms: int) -> None:
        sessions = self._sessions
        del sessions[session.id]
        sessions[session.id] = session
        session.used_ms = now_ms
        size = len(session.partitions)
        is_settled = now_ms - session.created_ms > MIN_EVICTION_MS
        if size != session.size or is_settled != session.is_settled:
            self._unrank(session)
            self.partition_count += size - session.size
            session.size = size
            session.is_settled = is_settled
            self._rank(session)

    def _evict_for(self, session: FetchSession, size: int, now_ms: int) -> bool:
        """Make room for a session: in place of a stale one, else of one that is worth less."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > MIN_EVICTION_MS:
            victim = oldest
        else:
            ranks = self._evictable_by_privileged if session.is_privileged else self._evictable_by_all
            if not ranks or (session.is_privileged, size, NO_SESSION) < ranks[0]:
                return False
            victim = self._sessions[ranks[0][2]]
        self._remove(victim)
        self.evictions += 1
        return True

    def _remove(self, session: FetchSession) -> None:
        self._unrank(session)
        self.partition_count -= session.size
        del self._sessions[session.id]
        session.unwatch()
        if session.waiter is not None:
            session.waiter.expire()

    def _rank(self, session: FetchSession) -> None:
        rank = (session.is_privileged, session.size, session.id)
        if session.is_settled:
            insort(self._evictable_by_all, rank)
        if session.is_settled or not session.is_privileged:
            insort(self._evictable_by_privileged, rank)

    def _unrank(self, session: FetchSession) -> None:
        rank = (session.is_privileged, session.size, session.id)
        for ranks in (self._evictable_by_all, self._evictable_by_privileged):
            place = bisect_left(ranks, rank)
            if place < len(ranks) and ranks[place] == rank:
                del ranks[place]


def _new_session(request: FetchRequest, uses_topic_ids: bool, is_privileged: bool) -> FetchSession:
    session = FetchSession(uses_topic_ids=uses_topic_ids, is_privileged=is_privileged)
    session.want(request.topics)
    return session
