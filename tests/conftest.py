"""What all tests have in common."""

import hypothesis
import pytest

pytest.register_assert_rewrite("tests.clients")

# How long an example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("penstock", deadline=None)
hypothesis.settings.load_profile("penstock")
