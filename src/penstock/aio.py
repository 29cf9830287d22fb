"""The clients for asyncio: the names of `penstock`, with calls to be awaited.

>>> from penstock.aio import Consumer, Producer
"""

from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
