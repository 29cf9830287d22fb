"""The door to the network: byte streams in asyncio's protocol and transport shape."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    import asyncio


BACKLOG: Final = 1024
"""How many connections may wait to be accepted."""


class Listener(Protocol):
    """A port of our own. Until `start` no client can connect to it."""

    @property
    def port(self) -> int:
        """The port in use, also when 0 was asked for."""
        ...

    async def start(self) -> None:
        """Accept connections from now on; OSError if another process began to listen here in the meantime."""
        ...

    def close(self) -> None:
        """Stop accepting; open connections live on."""
        ...


class Net(Protocol):
    async def listen(
        self,
        host: str,
        port: int,
        connection_factory: "Callable[[], asyncio.BufferedProtocol]",
        backlog: int = BACKLOG,
    ) -> Listener:
        """Claim a port; 0 is any free one."""
        ...

    async def connect(
        self, host: str, port: int, connection_factory: "Callable[[], asyncio.BufferedProtocol]"
    ) -> "asyncio.Transport": ...
