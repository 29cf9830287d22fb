"""Broker properties that Kafka 4 dropped: a file of the ZooKeeper era names them, and must still start a broker."""

from functools import partial

from levada.model.config import Key
from levada.model.config_ranges import AtLeast

# Kafka 4 does not list them, so neither do we unless one was given.
_key = partial(Key, internal=True)

LEGACY_KEYS: tuple[Key, ...] = (
    _key("advertised.host.name", "string", None),
    _key("advertised.port", "int", None),
    _key("broker.id.generation.enable", "boolean", True),
    _key("control.plane.listener.name", "string", None),
    _key("controlled.shutdown.max.retries", "int", 3),
    _key("controlled.shutdown.retry.backoff.ms", "long", 5000),
    _key("controller.message.queue.size", "int", 2147483647),
    _key("delegation.token.master.key", "password", None),
    _key("eligible.leader.replicas.enable", "boolean", False),
    _key("group.coordinator.new.enable", "boolean", False),
    _key("host.name", "string", ""),
    _key("inter.broker.protocol.version", "string", None),
    _key("leader.imbalance.per.broker.percentage", "int", 10),
    _key("log.message.downconversion.enable", "boolean", True),
    _key("log.message.format.version", "string", None),
    _key("log.message.timestamp.difference.max.ms", "long", 9223372036854775807, AtLeast(0)),
    _key("offsets.commit.required.acks", "short", -1),
    _key("password.encoder.cipher.algorithm", "string", "AES/CBC/PKCS5Padding"),
    _key("password.encoder.iterations", "int", 4096, AtLeast(1024)),
    _key("password.encoder.key.length", "int", 128, AtLeast(8)),
    _key("password.encoder.keyfactory.algorithm", "string", None),
    _key("password.encoder.old.secret", "password", None),
    _key("password.encoder.secret", "password", None),
    _key("port", "int", 9092),
    _key("quota.consumer.default", "long", 9223372036854775807, AtLeast(1)),
    _key("quota.producer.default", "long", 9223372036854775807, AtLeast(1)),
    _key("replica.lag.max.messages", "long", 4000),
    _key("reserved.broker.max.id", "int", 1000, AtLeast(0)),
    _key("zookeeper.clientCnxnSocket", "string", None),
    _key("zookeeper.connect", "string", None),
    _key("zookeeper.connection.timeout.ms", "int", None),
    _key("zookeeper.max.in.flight.requests", "int", 10, AtLeast(1)),
    _key("zookeeper.metadata.migration.enable", "boolean", False),
    _key("zookeeper.session.timeout.ms", "int", 18000),
    _key("zookeeper.set.acl", "boolean", False),
    _key("zookeeper.ssl.cipher.suites", "list", None),
    _key("zookeeper.ssl.client.enable", "boolean", False),
    _key("zookeeper.ssl.crl.enable", "boolean", False),
    _key("zookeeper.ssl.enabled.protocols", "list", None),
    _key("zookeeper.ssl.endpoint.identification.algorithm", "string", "HTTPS"),
    _key("zookeeper.ssl.keystore.location", "string", None),
    _key("zookeeper.ssl.keystore.password", "password", None),
    _key("zookeeper.ssl.keystore.type", "string", None),
    _key("zookeeper.ssl.ocsp.enable", "boolean", False),
    _key("zookeeper.ssl.protocol", "string", "TLSv1.2"),
    _key("zookeeper.ssl.truststore.location", "string", None),
    _key("zookeeper.ssl.truststore.password", "password", None),
    _key("zookeeper.ssl.truststore.type", "string", None),
    _key("zookeeper.sync.time.ms", "int", 2000),
)
