"""What several tests of this folder stand on."""

from tests.chaos.test_full_disk import small_disk

__all__ = ["small_disk"]
