"""Clients that come from npm or Debian; what is missing here is skipped by name."""

from tests.integration.conftest import broker, own_broker

__all__ = ["broker", "own_broker"]
