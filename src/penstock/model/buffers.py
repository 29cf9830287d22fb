"""The types of bytes that pass through without being copied."""

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
