"""The way of a plain record into an open batch, in Python: the twin of `_front.pyx`, with the accumulator's lock."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from levada.client.arguments import is_int64
from levada.records.writer import murmur2

if TYPE_CHECKING:
    from levada.client.producer.batch import Batch
    from levada.client.producer.routes import TopicQueues


class Ticket:
    """A record's place: its batch, and where in it."""

    __slots__ = ("batch", "index", "timestamp_ms")

    def __init__(self, batch: "Batch", index: int, timestamp_ms: int) -> None:
        self.batch = batch
        self.index = index
        self.timestamp_ms = timestamp_ms


class Front:
    """Puts a record into the open batch of its queue, or leaves it to the longer way."""

    def __init__(
        self,
        topics: "dict[str, TopicQueues]",
        handle_type: type[Any],
        append_open: Callable[..., Any],
        now_ms: Callable[[], int],
        check: Callable[[], None] | None,
        longer: Callable[..., Any],
        *,
        uses_system_time: bool,
    ) -> None:
        self.is_open = False
        """Off when the producer is closed, or its records need more than this."""
        self._topics = topics
        self._append_open = append_open
        self._now_ms = now_ms
        self._check = check
        self._longer = longer

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Any = None,
    ) -> Any:
        """The handle of the record; what the longer way gives, if it has to be taken."""
        handle = self._hurry(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        if handle is None:
            return self._longer(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        return handle

    def _hurry(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: Any,
    ) -> Any:
        if not self.is_open or partition is not None or headers is not None or not isinstance(topic, str):
            return None
        queues = self._topics.get(topic)
        if queues is None:
            return None
        if key is None:
            queue = queues.sticky
        elif type(key) is bytes:
            queue = queues.partitions[(murmur2(key) & 0x7FFF_FFFF) % queues.count]
        else:
            return None
        if queue is None:
            return None
        if self._check is not None:
            self._check()
        if timestamp_ms is not None and not (isinstance(timestamp_ms, int) and is_int64(timestamp_ms)):
            return None
        if not (value is None or isinstance(value, bytes | bytearray | memoryview)):
            return None
        if not (on_delivery is None or callable(on_delivery)):
            return None
        time_ms = self._now_ms() if timestamp_ms is None else timestamp_ms
        return self._append_open(queue, time_ms, key, value, (), on_delivery)
