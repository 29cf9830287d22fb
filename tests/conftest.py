"""What all tests have in common."""

import pytest

pytest.register_assert_rewrite("tests.clients")
