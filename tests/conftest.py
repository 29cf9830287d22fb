"""What all tests have in common."""

import gc
import sys
import warnings

import hypothesis
import pytest

pytest.register_assert_rewrite("tests.clients")

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("levada", deadline=None)
hypothesis.settings.load_profile("levada")


def pytest_sessionfinish() -> None:
    """kafka-python leaves sockets behind; those not collected yet would at the very end be an error of pytest."""
    if "kafka" in sys.modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
