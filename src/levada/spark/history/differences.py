"""What a comparison of two tables found, and how it reads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """How a key differs; the values are the words of the report."""

    MISSING_LEFT = "missing on the left"
    MISSING_RIGHT = "missing on the right"
    DIFFERENT = "with other values"
    DUPLICATE = "there more than once"


@dataclass(frozen=True, slots=True)
class Difference:
    """One key."""

    kind: Kind
    key: tuple[object, ...]
    columns: Mapping[str, tuple[object, object]] = field(default_factory=dict)
    """The columns that differ, with the left and the right value."""
    left_count: int = 1
    right_count: int = 1


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome: `agrees`, the counts, a few examples; `str()` is for people."""

    keys: tuple[str, ...]
    left_rows: int
    right_rows: int
    equal: int
    """Keys that are on both sides once, with equal values."""
    differences: Mapping[Kind, int]
    columns: Mapping[str, int] = field(default_factory=dict)
    """For each column the number of keys in which it differs."""
    only_left_columns: tuple[str, ...] = ()
    only_right_columns: tuple[str, ...] = ()
    other_types: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Columns whose types cannot be compared as they are: their text was."""
    examples: tuple[Difference, ...] = ()

    @property
    def agrees(self) -> bool:
        return not self.differences and not self.only_left_columns and not self.only_right_columns

    @property
    def missing_left(self) -> int:
        return self.differences.get(Kind.MISSING_LEFT, 0)

    @property
    def missing_right(self) -> int:
        return self.differences.get(Kind.MISSING_RIGHT, 0)

    @property
    def different(self) -> int:
        return self.differences.get(Kind.DIFFERENT, 0)

    @property
    def duplicates(self) -> int:
        """Keys that are more than once on a side."""
        return self.differences.get(Kind.DUPLICATE, 0)

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(report: Report) -> Iterator[str]:
    verdict = "agree" if report.agrees else "differ"
    yield f"the tables {verdict}: {report.left_rows} rows left, {report.right_rows} right, {report.equal} keys equal"
    for names, side in ((report.only_left_columns, "left"), (report.only_right_columns, "right")):
        if names:
            yield f"columns only on the {side}: {', '.join(names)}"
    for name, (left, right) in report.other_types.items():
        yield f"column {name} is {left} on the left and {right} on the right: compared as text"
    for kind, count in report.differences.items():
        yield f"{count} keys {kind.value}{_columns_of(report) if kind is Kind.DIFFERENT else ''}"
        yield from (f"  {_example(report, each)}" for each in report.examples if each.kind is kind)


def _columns_of(report: Report) -> str:
    return f" ({', '.join(f'{name}: {count}' for name, count in report.columns.items())})"


def _example(report: Report, difference: Difference) -> str:
    key = ", ".join(f"{name}={value!r}" for name, value in zip(report.keys, difference.key))
    if difference.kind is Kind.DUPLICATE:
        return f"{key}: {difference.left_count} times left, {difference.right_count} right"
    values = ", ".join(f"{name} {left!r} != {right!r}" for name, (left, right) in difference.columns.items())
    return f"{key}: {values}" if values else key
