"""`bootstrap.servers`: text to hosts and ports."""

import re
from collections.abc import Sequence

from levada.client.errors import ConfigurationError

# Kafka takes any scheme before the address and ignores it; brackets around IPv6 addresses are optional.
_ADDRESS = re.compile(r"(?:([0-9A-Za-z\-%._]*)://)?(?:\[([0-9A-Za-z\-%._:]*)\]|([0-9A-Za-z\-%._:]*)):([0-9]+)")
_HIGHEST_PORT = 65_535


def parse_addresses(servers: str | Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Host and port of each server, in their order, each once.

    >>> parse_addresses("one:9092, two:9093")
    (('one', 9092), ('two', 9093))
    >>> parse_addresses(["[::1]:9092"])
    (('::1', 9092),)
    """
    parts = [servers] if isinstance(servers, str) else servers
    texts = [text.strip() for part in parts for text in part.split(",")]
    addresses = dict.fromkeys(_parse_address(text) for text in texts if text)
    if not addresses:
        raise ConfigurationError("bootstrap.servers is empty; give the address of a broker, such as 'localhost:9092'")
    return tuple(addresses)


def _parse_address(text: str) -> tuple[str, int]:
    found = _ADDRESS.fullmatch(text)
    if found is None:
        hint = f"; did you mean '{text}:9092'?" if re.fullmatch(r"[0-9A-Za-z\-._]+", text) else ""
        raise ConfigurationError(f"bootstrap.servers must have the form host:port, not {text!r}{hint}")
    scheme, bracketed, plain, port = found.groups()
    if scheme and scheme.upper() in ("SSL", "SASL_SSL", "SASL_PLAINTEXT"):
        raise ConfigurationError(f"bootstrap.servers: {text!r} asks for {scheme}, and only PLAINTEXT is supported yet")
    if int(port) > _HIGHEST_PORT:
        raise ConfigurationError(
            f"bootstrap.servers: the port of {text!r} is out of range: it is a number from 0 to {_HIGHEST_PORT}"
        )
    # Java resolves an empty name to the machine itself.
    return bracketed or plain or "localhost", int(port)
