"""From a record to its queue: the queues of each topic in use, and the choice among them."""

from collections.abc import Callable, Sequence

from levada.client.cluster import NO_NODE, ClusterView, TopicView
from levada.client.options import Options
from levada.client.partitioners import Partitioning, PartitionLoad, own_partitioner
from levada.client.producer.partition_queue import PartitionQueue
from levada.model.buffers import Buffer
from levada.records.writer import murmur2

LOADS_EVERY = 16
"""Batches between two looks at all queues of a topic."""


class TopicQueues:
    """The queues of one topic; `sticky` is where records without a key go until its batch is full."""

    __slots__ = ("added_ms", "available", "batches_until_loads", "count", "name", "partitions", "sticky")

    def __init__(self, view: TopicView, now_ms: float) -> None:
        self.name = view.name
        self.added_ms = now_ms
        self.partitions: list[PartitionQueue] = []
        self.count = 0
        self.available: Sequence[int] = ()
        self.sticky: PartitionQueue | None = None
        self.batches_until_loads = 0

    def is_idle(self, since_ms: float) -> bool:
        return max(self.added_ms, *(queue.used_at_ms for queue in self.partitions)) < since_ms and not any(
            batch for queue in self.partitions for batch in queue.batches()
        )

    def see(self, view: TopicView) -> None:
        """Take in what is new about the topic; a queue is never lost, its records are on their way."""
        for index in range(len(self.partitions), len(view.partitions)):
            self.partitions.append(PartitionQueue(self.name, index))
        self.count = len(view.partitions)
        self.available = [partition.index for partition in view.partitions if partition.leader != NO_NODE]


class Routes:
    """All topics that this producer sends to."""

    def __init__(self, options: Options, below: Callable[[int], int], now_ms: Callable[[], float]) -> None:
        self.topics: dict[str, TopicQueues] = {}
        self._max_idle_ms: int = options["metadata.max.idle.ms"]
        self._now_ms = now_ms
        self._batch_size = max(1, options["batch.size"])
        self._linger_ms: float = options["linger.ms"]
        self._is_adaptive: bool = options["partitioner.adaptive.partitioning.enable"]
        own = own_partitioner(options["partitioner.class"])
        self.hashes_keys = own is None and not options["partitioner.ignore.keys"]
        """Whether a record with a key goes where its hash says, and no partitioner of the user's is called."""
        self.is_sticky = own is None
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
        for name, queues in self.topics.items():
            known = view.topics.get(name)
            if known is not None:
                queues.see(known)
                self._partitioning.sticky(name).leaders_changed(queues.count, queues.available)

    def add(self, view: TopicView) -> TopicQueues:
        queues = self.topics.get(view.name) or TopicQueues(view, self._now_ms())
        queues.see(view)
        self.topics[view.name] = queues
        return queues

    def queue(self, topic: TopicQueues, key: Buffer | None, value: Buffer | None) -> PartitionQueue:
        """Where a record goes that names no partition."""
        if key is not None and self.hashes_keys:
            return topic.partitions[(murmur2(key) & 0x7FFF_FFFF) % topic.count]
        chosen = self._partitioning.choose(topic.name, _whole(key), _whole(value), topic.count, topic.available)
        return self.sticky(topic) if chosen is None else topic.partitions[chosen]

    def sticky(self, topic: TopicQueues) -> PartitionQueue:
        queue = topic.sticky
        if queue is None or queue.open is None or queue.partition >= topic.count:
            queue = self._stick(topic)
        return queue

    def is_full(self, topic: TopicQueues, queue: PartitionQueue) -> PartitionQueue:
        """The sticky queue's batch has no room for the next record: the queue that has the next turn."""
        if queue is not topic.sticky:
            return queue
        chooser = self._partitioning.sticky(topic.name)
        chooser.produced(queue.partition, self._batch_size, topic.count, topic.available, batch_is_full=True)
        topic.sticky = None
        self._look_at_queues(topic)
        return self._stick(topic)

    def _stick(self, topic: TopicQueues) -> PartitionQueue:
        """Go on with the sticky partition, or with the next one after enough small batches went to it."""
        chooser = self._partitioning.sticky(topic.name)
        before = topic.sticky
        if before is not None and before.queued_bytes:
            size, before.queued_bytes = before.queued_bytes, 0
            chooser.produced(before.partition, size, topic.count, topic.available, batch_is_full=True)
        queue = topic.sticky = topic.partitions[chooser.partition(topic.count, topic.available)]
        return queue

    def _look_at_queues(self, topic: TopicQueues) -> None:
        if not self._is_adaptive or topic.count < 2:
            return
        topic.batches_until_loads -= 1
        if topic.batches_until_loads > 0:
            return
        topic.batches_until_loads = LOADS_EVERY
        now_ms = self._now_ms()
        loads = [self._load(topic.partitions[index], now_ms) for index in topic.available]
        self._partitioning.update_loads(topic.name, loads, topic.count)

    def _load(self, queue: PartitionQueue, now_ms: float) -> PartitionLoad:
        try:
            waited_ms = int(now_ms - queue.waiting[0].created_ms - self._linger_ms)
        except IndexError:
            waited_ms = 0
        return PartitionLoad(queue.partition, len(queue.waiting) + len(queue.unresolved), max(waited_ms, 0))


def _whole(data: Buffer | None) -> bytes | None:
    return data if data is None or isinstance(data, bytes) else bytes(data)
