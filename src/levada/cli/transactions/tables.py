"""The table of Apache's tool for transactions: columns as wide as their longest cell, and a tab behind each."""

from collections.abc import Sequence

from levada.cli.kit.terminal import paint


def print_table(title: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(title, *cells, strict=True)]
    print(paint(_line(title, widths), "bold"))
    for row in cells:
        print(_line(row, widths))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(f"{cell:{width}}\t" for cell, width in zip(cells, widths, strict=True))


def or_none(value: int | None) -> str:
    return "None" if value is None else str(value)


def or_minus_one(value: int | None) -> int:
    return -1 if value is None else value
