"""What a broker works by, as plain values: who it is, and the keys that requests meet most often."""

from dataclasses import dataclass

from levada.broker.broker_config import MINUTE_MS, BrokerConfig
from levada.groups import GroupSettings
from levada.groups.consumer import ConsumerGroupSettings, Interval, MigrationPolicy
from levada.transactions import TransactionSettings


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a broker is reached, as it is told to clients of one of its listeners."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    """The broker's id and addresses as others see them."""

    node_id: int
    cluster_id: str
    endpoints: tuple[Endpoint, ...] = ()
    """Known when it listens."""

    @property
    def advertised_listeners(self) -> str:
        return ",".join(f"{one.listener}://{one.host}:{one.port}" for one in self.endpoints)


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


def group_settings(config: BrokerConfig) -> GroupSettings:
    return GroupSettings(
        initial_rebalance_delay_ms=config["group.initial.rebalance.delay.ms"],
        min_session_timeout_ms=config["group.min.session.timeout.ms"],
        max_session_timeout_ms=config["group.max.session.timeout.ms"],
        max_size=config["group.max.size"],
        max_offset_metadata_size=config["offset.metadata.max.bytes"],
        offsets_retention_ms=config["offsets.retention.minutes"] * MINUTE_MS,
        offsets_check_interval_ms=config["offsets.retention.check.interval.ms"],
        consumer=_consumer_settings(config),
    )


def _consumer_settings(config: BrokerConfig) -> ConsumerGroupSettings:
    return ConsumerGroupSettings(
        assignors=tuple(config["group.consumer.assignors"]),
        session_timeout=_interval(config, "session.timeout"),
        heartbeat_interval=_interval(config, "heartbeat.interval"),
        assignment_interval=_interval(config, "assignment.interval"),
        max_size=config["group.consumer.max.size"],
        max_classic_size=config["group.max.size"],
        regex_refresh_interval_ms=config["group.consumer.regex.refresh.interval.ms"],
        migration_policy=MigrationPolicy(config["group.consumer.migration.policy"].lower()),
    )


def _interval(config: BrokerConfig, name: str) -> Interval:
    return Interval(
        config[f"group.consumer.{name}.ms"],
        config[f"group.consumer.min.{name}.ms"],
        config[f"group.consumer.max.{name}.ms"],
    )


def transaction_settings(config: BrokerConfig) -> TransactionSettings:
    return TransactionSettings(
        max_timeout_ms=config["transaction.max.timeout.ms"],
        abort_check_interval_ms=config["transaction.abort.timed.out.transaction.cleanup.interval.ms"],
        id_expiration_ms=config["transactional.id.expiration.ms"],
        removal_check_interval_ms=config["transaction.remove.expired.transaction.cleanup.interval.ms"],
    )
