"""What a broker is told when it starts, in the types it works with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    node_id: int
    host: str
    """The name clients are told to connect to."""
    port: int
    cluster_id: str
    partitions_per_topic: int = 1
    auto_create_topics: bool = True
    max_fetch_bytes: int = 57_671_680
