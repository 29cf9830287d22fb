"""Apache Kafka's protocol, log and guarantees in Python.

>>> from levada import Admin, Consumer, Producer

are the blocking clients; `levada.aio` has the same names for asyncio.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from levada.client.blocking import Admin, Consumer, Producer

__all__ = ["Admin", "Consumer", "Producer"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: a broker needs no client.
    if name in __all__:
        return getattr(import_module("levada.client.blocking"), name)
    raise AttributeError(f"module 'levada' has no attribute {name!r}")
