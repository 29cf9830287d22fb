"""The clients for asyncio: the names of `levada`, with calls to be awaited.

>>> from levada.aio import Consumer, Producer
"""

from levada.client.admin import Admin
from levada.client.consumer import Consumer
from levada.client.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
