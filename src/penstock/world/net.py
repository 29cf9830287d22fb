"""The door to the network: byte streams in asyncio's protocol and transport shape."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio


class Listener(Protocol):
    """An open port."""

    @property
    def port(self) -> int:
        """The port in use, also when 0 was asked for."""
        ...

    def close(self) -> None:
        """Stop accepting; open connections live on."""
        ...


class Net(Protocol):
    async def listen(
        self, host: str, port: int, connection_factory: "Callable[[], asyncio.BufferedProtocol]"
    ) -> Listener: ...

    async def connect(
        self, host: str, port: int, connection_factory: "Callable[[], asyncio.BufferedProtocol]"
    ) -> "asyncio.Transport": ...
