"""Topics that brokers keep for themselves, made when they are first needed."""

import asyncio
import logging
from typing import TYPE_CHECKING

from levada.model.error_codes import ErrorCode
from levada.model.errors import CoordinatorNotAvailable
from levada.model.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from levada.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from levada.broker.broker import Broker

logger = logging.getLogger(__name__)

REPLICATION_KEYS = {
    CONSUMER_OFFSETS: "offsets.topic.replication.factor",
    TRANSACTION_STATE: "transaction.state.log.replication.factor",
}
MAX_REPLICAS = 1
"""Brokers do not copy records from each other yet."""
MADE_ON_FIRST_USE = frozenset(REPLICATION_KEYS)
CREATE_VERSION = 7


async def make_internal_topic(name: str, broker: "Broker") -> None:
    """Make it unless it is there; CoordinatorNotAvailable if it cannot be made now."""
    if name not in broker.image.topics:
        # Clients ask over connections that they then give up; the topic is made all the same, and what is to be said
        # about it is said.
        await asyncio.shield(_make(name, broker))


async def _make(name: str, broker: "Broker") -> None:
    topic = internal_topic(name, broker)
    created = await broker.controller.submit(CreateTopicsRequest(topics=[topic]), CREATE_VERSION)
    [result] = created.topics
    if result.error_code == ErrorCode.NONE:
        tell_if_capped(topic, broker)
    # Another request, perhaps of another broker, may have been first.
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise CoordinatorNotAvailable(f"cannot make {name}: {result.error_message}")


def internal_topic(name: str, broker: "Broker") -> CreatableTopic:
    config = broker.config
    if name == CONSUMER_OFFSETS:
        partitions = config["offsets.topic.num.partitions"]
        settings = {"compression.type": "producer", "segment.bytes": str(config["offsets.topic.segment.bytes"])}
    else:
        partitions = config["transaction.state.log.num.partitions"]
        settings = {
            "compression.type": "uncompressed",
            "segment.bytes": str(config["transaction.state.log.segment.bytes"]),
            "min.insync.replicas": str(config["transaction.state.log.min.isr"]),
            "unclean.leader.election.enable": "false",
        }
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=min(config[REPLICATION_KEYS[name]], max(len(broker.image.live_brokers()), 1), MAX_REPLICAS),
        assignments=[],
        configs=[
            CreatableTopicConfig(name=key, value=value)
            for key, value in {"cleanup.policy": "compact", **settings}.items()
        ],
    )


def tell_if_capped(made: CreatableTopic, broker: "Broker") -> None:
    """Warn once for a topic, from the request that made it: several clients may have asked for it at once."""
    wanted = broker.config[REPLICATION_KEYS[made.name]]
    factor = made.replication_factor
    if factor < wanted:
        logger.warning("topic=%s replication_factor=%d wanted=%d: too few brokers", made.name, factor, wanted)
