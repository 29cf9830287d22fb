"""Topics that brokers keep for themselves, made when they are first needed."""

import logging
from typing import TYPE_CHECKING

from penstock.model.errors import CoordinatorNotAvailable, ErrorCode
from penstock.model.topics import CONSUMER_OFFSETS
from penstock.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

logger = logging.getLogger(__name__)

MADE_ON_FIRST_USE = frozenset({CONSUMER_OFFSETS})
CREATE_VERSION = 7


async def make_internal_topic(name: str, broker: "Broker") -> None:
    """Make it unless it is there; CoordinatorNotAvailable if it cannot be made now."""
    if name in broker.image.topics:
        return
    topic = internal_topic(name, broker)
    created = await broker.controller.submit(CreateTopicsRequest(topics=[topic]), CREATE_VERSION)
    [result] = created.topics
    if result.error_code == ErrorCode.NONE:
        tell_if_capped(topic, broker)
    # Somebody else may have been first.
    if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        raise CoordinatorNotAvailable(f"cannot make {name}: {result.error_message}")


def internal_topic(name: str, broker: "Broker") -> CreatableTopic:
    assert name in MADE_ON_FIRST_USE
    config = broker.config
    factor = min(config["offsets.topic.replication.factor"], max(len(broker.image.live_brokers()), 1))
    settings = {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config["offsets.topic.segment.bytes"]),
    }
    return CreatableTopic(
        name=name,
        num_partitions=config["offsets.topic.num.partitions"],
        replication_factor=factor,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )


def tell_if_capped(made: CreatableTopic, broker: "Broker") -> None:
    """Said by the one who made the topic: several clients may have asked for it at once."""
    wanted = broker.config["offsets.topic.replication.factor"]
    factor = made.replication_factor
    if factor < wanted:
        logger.warning("topic=%s replication_factor=%d of %d wanted, for want of brokers", made.name, factor, wanted)
