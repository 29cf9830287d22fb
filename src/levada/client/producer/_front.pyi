from collections.abc import Callable
from typing import Any

from levada.client.producer.batch import Batch
from levada.client.producer.routes import TopicQueues

class Ticket:
    def __init__(self, batch: Batch, index: int, timestamp_ms: int) -> None: ...
    @property
    def batch(self) -> Batch: ...
    @property
    def index(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...

class Front:
    is_open: bool
    def __init__(
        self,
        topics: dict[str, TopicQueues],
        handle_type: type[Any],
        append_open: Callable[..., Any],
        now_ms: Callable[[], int],
        check: Callable[[], None] | None,
        longer: Callable[..., Any],
        *,
        uses_system_time: bool,
    ) -> None: ...
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
    ) -> Any: ...
