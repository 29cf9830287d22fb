"""Columns in Arrow's layout that records are written from: the plain types that both batch writers take."""

from typing import NamedTuple

from levada.model.buffers import Buffer


class BinarySource(NamedTuple):
    """A nullable column of byte strings."""

    row_count: int
    first: int
    """Where the rows begin in the buffers, which a slice shares with its whole."""
    validity: Buffer | None
    """A bit for each row, the lowest of a byte first; None if no row is null."""
    ends: Buffer
    """Where each row ends in the data, after where the first begins: 32 bits, or 64 if it is large."""
    is_large: bool
    data: Buffer


class NumberSource(NamedTuple):
    """A nullable column of 64-bit numbers."""

    row_count: int
    first: int
    validity: Buffer | None
    numbers: Buffer


class HeaderSource(NamedTuple):
    """A nullable column of lists of (key, value); a null list has no headers."""

    row_count: int
    first: int
    validity: Buffer | None
    ends: Buffer
    """Where each row's list ends among the keys and values."""
    is_large: bool
    keys: BinarySource
    values: BinarySource


class RecordSource(NamedTuple):
    """All columns of records to be written; a column that is None has nothing to say of any row."""

    values: BinarySource
    keys: BinarySource | None
    headers: HeaderSource | None
    timestamps: NumberSource | None
    timestamp_ms: int
    """Of the rows that have none of their own."""
