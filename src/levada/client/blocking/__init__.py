"""The clients for code without asyncio; `levada` itself has these names."""

from levada.client.blocking.admin import Admin
from levada.client.blocking.consumer import Consumer
from levada.client.blocking.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
