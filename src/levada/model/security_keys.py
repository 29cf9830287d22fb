"""The broker properties of Apache Kafka 4.3 about who may connect and how."""

from levada.model.config import Dynamic, Importance, Key
from levada.model.config_ranges import Anything, AtLeast, OneOf
from levada.model.oauthbearer_keys import OAUTHBEARER_KEYS

PER_BROKER = Dynamic.PER_BROKER
HIGH = Importance.HIGH
LOW = Importance.LOW

SECURITY_KEYS: tuple[Key, ...] = (
    Key("authorizer.class.name", "string", "", Anything("non-null string"), importance=LOW),
    Key("connection.failed.authentication.delay.ms", "int", 100, AtLeast(0), importance=LOW),
    Key("connections.max.reauth.ms", "long", 0),
    Key("delegation.token.expiry.check.interval.ms", "long", 3600000, AtLeast(1), importance=LOW),
    Key("delegation.token.expiry.time.ms", "long", 86400000, AtLeast(1)),
    Key("delegation.token.max.lifetime.ms", "long", 604800000, AtLeast(1)),
    Key("delegation.token.secret.key", "password", None),
    Key(
        "principal.builder.class",
        "class",
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        dynamic=PER_BROKER,
    ),
    Key("sasl.client.callback.handler.class", "class", None),
    Key("sasl.enabled.mechanisms", "list", ("GSSAPI",), dynamic=PER_BROKER),
    Key("sasl.jaas.config", "password", None, dynamic=PER_BROKER),
    Key("sasl.kerberos.kinit.cmd", "string", "/usr/bin/kinit", dynamic=PER_BROKER),
    Key("sasl.kerberos.min.time.before.relogin", "long", 60000, dynamic=PER_BROKER),
    Key("sasl.kerberos.principal.to.local.rules", "list", ("DEFAULT",), dynamic=PER_BROKER),
    Key("sasl.kerberos.service.name", "string", None, dynamic=PER_BROKER),
    Key("sasl.kerberos.ticket.renew.jitter", "double", 0.05, dynamic=PER_BROKER),
    Key("sasl.kerberos.ticket.renew.window.factor", "double", 0.8, dynamic=PER_BROKER),
    Key("sasl.login.callback.handler.class", "class", None),
    Key("sasl.login.class", "class", None),
    Key("sasl.login.connect.timeout.ms", "int", None, importance=LOW),
    Key("sasl.login.read.timeout.ms", "int", None, importance=LOW),
    Key("sasl.login.refresh.buffer.seconds", "short", 300, dynamic=PER_BROKER),
    Key("sasl.login.refresh.min.period.seconds", "short", 60, dynamic=PER_BROKER),
    Key("sasl.login.refresh.window.factor", "double", 0.8, dynamic=PER_BROKER),
    Key("sasl.login.refresh.window.jitter", "double", 0.05, dynamic=PER_BROKER),
    Key("sasl.login.retry.backoff.max.ms", "long", 10000, importance=LOW),
    Key("sasl.login.retry.backoff.ms", "long", 100, importance=LOW),
    Key("sasl.mechanism.controller.protocol", "string", "GSSAPI", importance=HIGH),
    Key("sasl.mechanism.inter.broker.protocol", "string", "GSSAPI", dynamic=PER_BROKER),
    *OAUTHBEARER_KEYS,
    Key("sasl.server.callback.handler.class", "class", None),
    Key("sasl.server.max.receive.size", "int", 524288),
    Key(
        "security.inter.broker.protocol", "string", "PLAINTEXT", OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
    ),
    Key("security.providers", "string", None, importance=LOW),
    Key("ssl.allow.dn.changes", "boolean", False, importance=LOW),
    Key("ssl.allow.san.changes", "boolean", False, importance=LOW),
    Key("ssl.cipher.suites", "list", (), dynamic=PER_BROKER),
    Key("ssl.client.auth", "string", "none", OneOf("required", "requested", "none"), dynamic=PER_BROKER),
    Key("ssl.enabled.protocols", "list", ("TLSv1.2", "TLSv1.3"), dynamic=PER_BROKER),
    Key("ssl.endpoint.identification.algorithm", "string", "https", dynamic=PER_BROKER, importance=LOW),
    Key("ssl.engine.factory.class", "class", None, dynamic=PER_BROKER, importance=LOW),
    Key("ssl.key.password", "password", None, dynamic=PER_BROKER),
    Key("ssl.keymanager.algorithm", "string", "SunX509", dynamic=PER_BROKER),
    Key("ssl.keystore.certificate.chain", "password", None, dynamic=PER_BROKER),
    Key("ssl.keystore.key", "password", None, dynamic=PER_BROKER),
    Key("ssl.keystore.location", "string", None, dynamic=PER_BROKER),
    Key("ssl.keystore.password", "password", None, dynamic=PER_BROKER),
    Key("ssl.keystore.type", "string", "JKS", dynamic=PER_BROKER),
    Key("ssl.principal.mapping.rules", "string", "DEFAULT", importance=LOW),
    Key("ssl.protocol", "string", "TLSv1.3", dynamic=PER_BROKER),
    Key("ssl.provider", "string", None, dynamic=PER_BROKER),
    Key("ssl.secure.random.implementation", "string", None, dynamic=PER_BROKER, importance=LOW),
    Key("ssl.trustmanager.algorithm", "string", "PKIX", dynamic=PER_BROKER),
    Key("ssl.truststore.certificates", "password", None, dynamic=PER_BROKER),
    Key("ssl.truststore.location", "string", None, dynamic=PER_BROKER),
    Key("ssl.truststore.password", "password", None, dynamic=PER_BROKER),
    Key("ssl.truststore.type", "string", "JKS", dynamic=PER_BROKER),
)
