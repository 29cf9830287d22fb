"""The properties about encryption and authentication that all clients share: known, and refused when given."""

from levada.model.config import Importance, Key
from levada.model.config_ranges import Between, OneOf
from levada.model.oauthbearer_keys import OAUTHBEARER_KEYS

HIGH = Importance.HIGH
LOW = Importance.LOW

SECURITY_KEYS: tuple[Key, ...] = (
    Key("sasl.client.callback.handler.class", "class", None),
    Key("sasl.jaas.config", "password", None),
    Key("sasl.kerberos.kinit.cmd", "string", "/usr/bin/kinit", importance=LOW),
    Key("sasl.kerberos.min.time.before.relogin", "long", 60000, importance=LOW),
    Key("sasl.kerberos.service.name", "string", None),
    Key("sasl.kerberos.ticket.renew.jitter", "double", 0.05, importance=LOW),
    Key("sasl.kerberos.ticket.renew.window.factor", "double", 0.8, importance=LOW),
    Key("sasl.login.callback.handler.class", "class", None),
    Key("sasl.login.class", "class", None),
    Key("sasl.login.connect.timeout.ms", "int", None, importance=LOW),
    Key("sasl.login.read.timeout.ms", "int", None, importance=LOW),
    Key("sasl.login.refresh.buffer.seconds", "short", 300, Between(0, 3600), importance=LOW),
    Key("sasl.login.refresh.min.period.seconds", "short", 60, Between(0, 900), importance=LOW),
    Key("sasl.login.refresh.window.factor", "double", 0.8, Between(0.5, 1.0), importance=LOW),
    Key("sasl.login.refresh.window.jitter", "double", 0.05, Between(0.0, 0.25), importance=LOW),
    Key("sasl.login.retry.backoff.max.ms", "long", 10000, importance=LOW),
    Key("sasl.login.retry.backoff.ms", "long", 100, importance=LOW),
    Key("sasl.mechanism", "string", "GSSAPI"),
    *OAUTHBEARER_KEYS,
    Key("sasl.oauthbearer.header.urlencode", "boolean", False, importance=LOW),
    Key(
        "security.protocol",
        "string",
        "PLAINTEXT",
        OneOf("SASL_SSL", "PLAINTEXT", "SSL", "SASL_PLAINTEXT", ignore_case=True),
    ),
    Key("security.providers", "string", None, importance=LOW),
    Key("ssl.cipher.suites", "list", (), importance=LOW),
    Key("ssl.enabled.protocols", "list", ("TLSv1.2", "TLSv1.3")),
    Key("ssl.endpoint.identification.algorithm", "string", "https", importance=LOW),
    Key("ssl.engine.factory.class", "class", None, importance=LOW),
    Key("ssl.key.password", "password", None, importance=HIGH),
    Key("ssl.keymanager.algorithm", "string", "SunX509", importance=LOW),
    Key("ssl.keystore.certificate.chain", "password", None, importance=HIGH),
    Key("ssl.keystore.key", "password", None, importance=HIGH),
    Key("ssl.keystore.location", "string", None, importance=HIGH),
    Key("ssl.keystore.password", "password", None, importance=HIGH),
    Key("ssl.keystore.type", "string", "JKS"),
    Key("ssl.protocol", "string", "TLSv1.3"),
    Key("ssl.provider", "string", None),
    Key("ssl.secure.random.implementation", "string", None, importance=LOW),
    Key("ssl.trustmanager.algorithm", "string", "PKIX", importance=LOW),
    Key("ssl.truststore.certificates", "password", None, importance=HIGH),
    Key("ssl.truststore.location", "string", None, importance=HIGH),
    Key("ssl.truststore.password", "password", None, importance=HIGH),
    Key("ssl.truststore.type", "string", "JKS"),
)
