"""Every property of an admin client, in the order of their names."""

from levada.client.options.common_keys import COMMON_KEYS
from levada.client.options.security_keys import SECURITY_KEYS
from levada.model.config import Importance, Key
from levada.model.config_ranges import AtLeast, Between

HIGH = Importance.HIGH
LOW = Importance.LOW

_OWN: tuple[Key, ...] = (
    Key("bootstrap.controllers", "list", (), importance=HIGH),
    Key("bootstrap.servers", "list", (), importance=HIGH),
    Key("client.id", "string", ""),
    Key("connections.max.idle.ms", "long", 300000),
    Key("default.api.timeout.ms", "int", 60000, AtLeast(0)),
    Key("enable.metrics.push", "boolean", False, importance=LOW),
    Key("receive.buffer.bytes", "int", 65536, AtLeast(-1)),
    Key("retries", "int", 2147483647, Between(0, 2147483647), importance=LOW),
)

ADMIN_KEYS: tuple[Key, ...] = tuple(sorted((*COMMON_KEYS, *SECURITY_KEYS, *_OWN), key=lambda key: key.name))
