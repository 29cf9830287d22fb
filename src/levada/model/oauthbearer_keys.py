"""The properties of SASL/OAUTHBEARER in Apache Kafka 4.3 that brokers and clients share."""

from levada.model.config import Importance, Key
from levada.model.config_ranges import Between, OneOf

HIGH = Importance.HIGH
LOW = Importance.LOW

OAUTHBEARER_KEYS: tuple[Key, ...] = (
    Key("sasl.oauthbearer.assertion.algorithm", "string", "RS256", OneOf("ES256", "RS256", ignore_case=True)),
    Key("sasl.oauthbearer.assertion.claim.aud", "string", None),
    Key("sasl.oauthbearer.assertion.claim.exp.seconds", "int", 300, Between(0, 86400), importance=LOW),
    Key("sasl.oauthbearer.assertion.claim.iss", "string", None),
    Key("sasl.oauthbearer.assertion.claim.jti.include", "boolean", False),
    Key("sasl.oauthbearer.assertion.claim.nbf.seconds", "int", 60, Between(0, 3600), importance=LOW),
    Key("sasl.oauthbearer.assertion.claim.sub", "string", None),
    Key("sasl.oauthbearer.assertion.file", "string", None),
    Key("sasl.oauthbearer.assertion.private.key.file", "string", None),
    Key("sasl.oauthbearer.assertion.private.key.passphrase", "password", None),
    Key("sasl.oauthbearer.assertion.template.file", "string", None),
    Key("sasl.oauthbearer.client.credentials.client.id", "string", None),
    Key("sasl.oauthbearer.client.credentials.client.secret", "password", None),
    Key("sasl.oauthbearer.clock.skew.seconds", "int", 30, importance=LOW),
    Key("sasl.oauthbearer.expected.audience", "list", (), importance=HIGH),
    Key("sasl.oauthbearer.expected.issuer", "string", None, importance=HIGH),
    Key("sasl.oauthbearer.jwks.endpoint.refresh.ms", "long", 3600000, importance=LOW),
    Key("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "long", 10000, importance=LOW),
    Key("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "long", 100, importance=LOW),
    Key("sasl.oauthbearer.jwks.endpoint.url", "string", None),
    Key(
        "sasl.oauthbearer.jwt.retriever.class",
        "class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    ),
    Key(
        "sasl.oauthbearer.jwt.validator.class",
        "class",
        "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    ),
    Key("sasl.oauthbearer.scope", "string", None),
    Key("sasl.oauthbearer.scope.claim.name", "string", "scope", importance=LOW),
    Key("sasl.oauthbearer.sub.claim.name", "string", "sub", importance=LOW),
    Key("sasl.oauthbearer.token.endpoint.url", "string", None),
)
