"""Clients that come from npm or Debian; what is missing here is skipped by name."""

import shutil

import pytest

from tests.integration.conftest import broker, own_broker
from tests.interop.apache_broker import JARS

__all__ = ["broker", "own_broker"]


@pytest.fixture(scope="session")
def apache_jars() -> None:
    """Asked when a test runs, not when it is collected: an earlier test of the same run may have fetched them."""
    if shutil.which("java") is None:
        pytest.skip("Java is not installed, so Apache's own code was not tried")
    if not JARS.exists():
        pytest.skip("Apache's broker is not here; test_apache_broker.py fetches it with Maven")
