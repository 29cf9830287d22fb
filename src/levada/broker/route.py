"""What dispatch and handlers agree on: an API as it is served, and one request of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from levada.broker.broker import Broker
from levada.protocol.api import ApiKey, request_class
from levada.protocol.declare import Message


@dataclass(slots=True)
class Request:
    """What a handler knows beside the message."""

    version: int
    client_id: str | None
    peer: str
    broker: Broker
    routes: "dict[int, Route]"
    listener: str = "PLAINTEXT"
    """The name of the listener that the client has come to."""
    is_held: bool = False
    """Set by a handler, before it returns, whose request must be done before the next of the same client begins."""
    is_large: bool = False
    """Set by a handler whose response has very many elements: it is encoded in slices."""

    @property
    def client_host(self) -> str:
        """Written as Java writes an address without a name; tools show it so."""
        return f"/{self.peer.rpartition(':')[0]}"


@dataclass(frozen=True, slots=True)
class Route:
    """One API as this broker serves it."""

    api_key: ApiKey
    versions: range
    advertised: range
    flexible_since: int
    message: type[Message]
    handle: Callable[[Any, Request], object]
    """Gives the response, an awaitable of it, or None where the protocol sends nothing."""
    is_of_brokers: bool = False
    """Whether only brokers may ask it, over the listener that is theirs."""


def routes_of(handlers: Iterable[ModuleType]) -> dict[int, Route]:
    """Each handler module names its API and its versions, and has a function `handle`."""
    return {
        module.API: Route(
            api_key=module.API,
            versions=module.VERSIONS,
            advertised=getattr(module, "ADVERTISED_VERSIONS", module.VERSIONS),
            flexible_since=request_class(module.API).flexible_since,
            is_of_brokers=getattr(module, "IS_OF_BROKERS", False),
            message=request_class(module.API),
            handle=module.handle,
        )
        for module in handlers
    }
