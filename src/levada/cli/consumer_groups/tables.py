"""Lines of columns, as wide as Apache's tool has them."""

from collections.abc import Iterable, Sequence
from typing import Final

from levada.cli.kit.terminal import paint

MISSING: Final = "-"
"""Stands for what is not there."""

UNPADDED: Final = 0
"""The width of a last column."""


def text_of(value: object) -> str:
    return MISSING if value is None or value == "" else str(value)


def line(cells: Iterable[str], widths: Sequence[int]) -> str:
    """
    >>> line(["billing", "3"], [10, UNPADDED])
    'billing    3'
    """
    return " ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


def heading(cells: Iterable[str], widths: Sequence[int]) -> str:
    return paint(line(cells, widths), "bold")


def widest(least: int, texts: Iterable[str]) -> int:
    return max([least, *map(len, texts)])
