"""What a broker works by, as plain values: who it is, and the keys that requests meet most often."""

from dataclasses import dataclass

from penstock.broker.broker_config import BrokerConfig


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this broker is to its clients."""

    node_id: int
    cluster_id: str
    host: str
    """The name clients are told to connect to."""
    port: int
    directory_id: bytes = bytes(16)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    partitions_per_topic: int = 1
    replication_factor: int = 1
    auto_create_topics: bool = True
    max_fetch_bytes: int = 57_671_680


def broker_settings(config: BrokerConfig) -> BrokerSettings:
    return BrokerSettings(
        partitions_per_topic=config["num.partitions"],
        replication_factor=config["default.replication.factor"],
        auto_create_topics=config["auto.create.topics.enable"],
        max_fetch_bytes=config["fetch.max.bytes"],
    )
