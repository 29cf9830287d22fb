"""The clients for code without asyncio; `penstock` itself has these names."""

from penstock.client.blocking.admin import Admin
from penstock.client.blocking.consumer import Consumer
from penstock.client.blocking.producer import Producer

__all__ = ["Admin", "Consumer", "Producer"]
