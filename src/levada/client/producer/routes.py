"""From a record to its lane: the lanes of each topic in use, and the choice among them."""

from collections.abc import Callable, Sequence

from levada.client.cluster import NO_NODE, ClusterView, TopicView
from levada.client.options import Options
from levada.client.partitioners import Partitioning, PartitionLoad, own_partitioner
from levada.client.producer.lane import Lane
from levada.model.buffers import Buffer
from levada.records.writer import murmur2

LOADS_EVERY = 16
"""Batches between two looks at all queues of a topic."""


class TopicLanes:
    """The lanes of one topic; `sticky` is where records without a key go until its batch is full."""

    __slots__ = ("added_ms", "available", "batches_until_loads", "count", "lanes", "name", "sticky")

    def __init__(self, view: TopicView, now_ms: float) -> None:
        self.name = view.name
        self.added_ms = now_ms
        self.lanes: list[Lane] = []
        self.count = 0
        self.available: Sequence[int] = ()
        self.sticky: Lane | None = None
        self.batches_until_loads = 0

    def is_idle(self, since_ms: float) -> bool:
        return max(self.added_ms, *(lane.used_at_ms for lane in self.lanes)) < since_ms and not any(
            batch for lane in self.lanes for batch in lane.batches()
        )

    def see(self, view: TopicView) -> None:
        """Take in what is new about the topic; a lane is never lost, its records are on their way."""
        for index in range(len(self.lanes), len(view.partitions)):
            self.lanes.append(Lane(self.name, index))
        self.count = len(view.partitions)
        self.available = [partition.index for partition in view.partitions if partition.leader != NO_NODE]


class Routes:
    """All topics that this producer sends to."""

    def __init__(self, options: Options, below: Callable[[int], int], now_ms: Callable[[], float]) -> None:
        self.topics: dict[str, TopicLanes] = {}
        self._max_idle_ms: int = options["metadata.max.idle.ms"]
        self._now_ms = now_ms
        self._batch_size = max(1, options["batch.size"])
        self._linger_ms: float = options["linger.ms"]
        self._is_adaptive: bool = options["partitioner.adaptive.partitioning.enable"]
        own = own_partitioner(options["partitioner.class"])
        self.hashes_keys = own is None and not options["partitioner.ignore.keys"]
        """Whether a record with a key goes where its hash says, and nobody else is asked."""
        self.asks_nobody = own is None
        """Whether a record without a key goes to the sticky partition."""
        self._partitioning = Partitioning(
            below,
            batch_size=options["batch.size"],
            own=own,
            ignore_keys=options["partitioner.ignore.keys"],
            adaptive=self._is_adaptive,
            availability_timeout_ms=options["partitioner.availability.timeout.ms"],
        )

    def forget_idle(self) -> list[str]:
        """Let go of the topics that were not sent to for a long time; which ones."""
        since_ms = self._now_ms() - self._max_idle_ms
        idle = [name for name, topic in self.topics.items() if topic.is_idle(since_ms)]
        for name in idle:
            del self.topics[name]
            self._partitioning.forget(name)
        return idle

    def see(self, view: ClusterView) -> None:
        for name, lanes in self.topics.items():
            known = view.topics.get(name)
            if known is not None:
                lanes.see(known)
                self._partitioning.sticky(name).leaders_changed(lanes.count, lanes.available)

    def add(self, view: TopicView) -> TopicLanes:
        lanes = self.topics.get(view.name) or TopicLanes(view, self._now_ms())
        lanes.see(view)
        self.topics[view.name] = lanes
        return lanes

    def lane(self, topic: TopicLanes, key: Buffer | None, value: Buffer | None) -> Lane:
        """Where a record goes that names no partition."""
        if key is not None and self.hashes_keys:
            return topic.lanes[(murmur2(key) & 0x7FFF_FFFF) % topic.count]
        chosen = self._partitioning.choose(topic.name, _whole(key), _whole(value), topic.count, topic.available)
        return self.sticky(topic) if chosen is None else topic.lanes[chosen]

    def sticky(self, topic: TopicLanes) -> Lane:
        lane = topic.sticky
        if lane is None or lane.open is None or lane.partition >= topic.count:
            lane = self._stick(topic)
        return lane

    def is_full(self, topic: TopicLanes, lane: Lane) -> Lane:
        """The sticky lane's batch has no room for the next record: the lane that has the next turn."""
        if lane is not topic.sticky:
            return lane
        chooser = self._partitioning.sticky(topic.name)
        chooser.produced(lane.partition, self._batch_size, topic.count, topic.available, batch_is_full=True)
        topic.sticky = None
        self._look_at_queues(topic)
        return self._stick(topic)

    def _stick(self, topic: TopicLanes) -> Lane:
        """Go on with the sticky partition, or with the next one after enough small batches went to it."""
        chooser = self._partitioning.sticky(topic.name)
        before = topic.sticky
        if before is not None and before.queued_bytes:
            size, before.queued_bytes = before.queued_bytes, 0
            chooser.produced(before.partition, size, topic.count, topic.available, batch_is_full=True)
        lane = topic.sticky = topic.lanes[chooser.partition(topic.count, topic.available)]
        return lane

    def _look_at_queues(self, topic: TopicLanes) -> None:
        if not self._is_adaptive or topic.count < 2:
            return
        topic.batches_until_loads -= 1
        if topic.batches_until_loads > 0:
            return
        topic.batches_until_loads = LOADS_EVERY
        now_ms = self._now_ms()
        loads = [self._load(topic.lanes[index], now_ms) for index in topic.available]
        self._partitioning.update_loads(topic.name, loads, topic.count)

    def _load(self, lane: Lane, now_ms: float) -> PartitionLoad:
        try:
            waited_ms = int(now_ms - lane.queue[0].created_ms - self._linger_ms)
        except IndexError:
            waited_ms = 0
        return PartitionLoad(lane.partition, len(lane.queue) + len(lane.unresolved), max(waited_ms, 0))


def _whole(data: Buffer | None) -> bytes | None:
    return data if data is None or isinstance(data, bytes) else bytes(data)
