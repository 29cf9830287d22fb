"""Where a broker listens, and what it tells clients to connect to: Kafka's `listeners` and what goes with them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from socket import gethostname

from levada.broker.settings import Endpoint
from levada.model.config import Config, ConfigError

EVERY_INTERFACE = ("", "0.0.0.0", "::")
"""Addresses to listen on that mean nothing to a client."""

MAX_PORT = 65_535
PLAINTEXT = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    name: str
    host: str
    port: int
    """0 stands for any that is free."""
    advertised_host: str
    advertised_port: int
    """0 stands for the port that is listened on; -1 for a listener that clients are not told of."""

    def endpoint(self, bound_port: int) -> Endpoint | None:
        """What others are told, None if nothing."""
        if self.advertised_port < 0:
            return None
        return Endpoint(self.name, self.advertised_host, self.advertised_port or bound_port)


def listeners_of(config: Config) -> tuple[ListenerSettings, ...]:
    """All listeners but those of Apache's controllers: here brokers ask each other over a listener of their own."""
    protocols = _protocols(config)
    for_controllers = config["controller.listener.names"] or ()
    own = [one for one in config["listeners"] if one.partition("://")[0] not in for_controllers]
    parsed = [_parse("listeners", one, protocols) for one in own]
    _refuse_repeated("listeners", parsed)
    if not parsed:
        raise ConfigError("listeners must name at least one listener for clients")
    advertised = parsed
    if config["advertised.listeners"]:
        told = [one for one in config["advertised.listeners"] if one.partition("://")[0] not in for_controllers]
        advertised = [_parse("advertised.listeners", one, protocols) for one in told]
        _refuse_unknown(advertised, parsed)
    by_name = {name: (host, port) for name, host, port in advertised}
    return tuple(_listener(name, host, port, by_name.get(name)) for name, host, port in parsed)


def inter_broker_listener(config: Config, listeners: Sequence[ListenerSettings]) -> str:
    """The listener over which brokers ask each other; the others refuse what only brokers may ask."""
    named = config["inter.broker.listener.name"]
    names = [one.name for one in listeners if one.advertised_port >= 0]
    if named is not None and named not in names:
        raise ConfigError(
            f"inter.broker.listener.name={named} is none of the advertised listeners, which are {','.join(names)}"
        )
    if not names:
        raise ConfigError("advertised.listeners must name at least one of the listeners")
    return named or (PLAINTEXT if PLAINTEXT in names else names[0])


def parse_listener(key: str, text: str) -> tuple[str, int]:
    """`PLAINTEXT://host:port` or `host:port`; IPv6 addresses in brackets."""
    _, host, port = _parse(key, text, {PLAINTEXT: PLAINTEXT})
    return host, port


def _parse(key: str, text: str, protocols: dict[str, str]) -> tuple[str, str, int]:
    """The name, host and port of one."""
    name, separator, address = text.rpartition("://")
    if separator and protocols.get(name, name) != PLAINTEXT:
        raise ConfigError(f"{key} {text!r}: only PLAINTEXT listeners are served")
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ConfigError(f"{key} must look like HOST:PORT, not {text!r}")
    if int(port) > MAX_PORT:
        raise ConfigError(f"{key}: the port of {text!r} is out of range: it is a number from 0 to {MAX_PORT}")
    return name or PLAINTEXT, host.removeprefix("[").removesuffix("]"), int(port)


def _protocols(config: Config) -> dict[str, str]:
    """What the names of listeners stand for."""
    named = (each.strip().partition(":") for each in config["listener.security.protocol.map"].split(","))
    return {listener: protocol for listener, _, protocol in named}


def _refuse_repeated(key: str, parsed: Sequence[tuple[str, str, int]]) -> None:
    for name, count in Counter(name for name, _, _ in parsed).items():
        if count > 1:
            raise ConfigError(f"{key} names {name} {count} times; each listener must have a name of its own")
    for port, count in Counter(port for _, _, port in parsed if port).items():
        if count > 1:
            raise ConfigError(f"{key} has port {port} {count} times; each listener must have a port of its own")


def _refuse_unknown(advertised: Sequence[tuple[str, str, int]], parsed: Sequence[tuple[str, str, int]]) -> None:
    names = [name for name, _, _ in parsed]
    for name, host, _ in advertised:
        if name not in names:
            raise ConfigError(f"advertised.listeners has {name}, which is none of the listeners: {','.join(names)}")
        if host in EVERY_INTERFACE[1:]:
            raise ConfigError(f"advertised.listeners: {host} means every interface, and no client can connect to it")


def _listener(name: str, host: str, port: int, advertised: tuple[str, int] | None) -> ListenerSettings:
    if advertised is None:
        return ListenerSettings(name, host, port, "", -1)
    told_host, told_port = advertised
    return ListenerSettings(name, host, port, gethostname() if told_host in EVERY_INTERFACE else told_host, told_port)
