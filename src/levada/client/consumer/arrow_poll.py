"""Whole batches out of the fetcher as one Arrow RecordBatch."""

import math
from typing import TYPE_CHECKING

from levada.client.consumer.fetched import corrupt
from levada.client.consumer.fetcher import Batches, Fetcher
from levada.client.types import TopicPartition
from levada.records import BatchView, DecompressedTooLarge, RecordsError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_BYTES = 64 * 1024 * 1024
"""So much at once at most, compressed, or the first batch: Arrow counts the bytes of a column in 31 bits."""


def check_arrow() -> None:
    """Say what is missing before anything is waited for."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ImportError("poll_arrow needs pyarrow: install levada[arrow]") from error


def take_arrow(fetcher: Fetcher, max_rows: float = math.inf) -> "pa.RecordBatch | None":
    """All that may be handed out now, which counts as consumed with that; None when there is nothing.

    Not more batches than have about `max_rows` records, or the first.
    """
    # Late, as pyarrow is an extra, and takes its time to load.
    from levada.records.arrow import PartitionBatches, decode_arrow_partitions

    chosen = _within(fetcher.peek_batches(), MAX_BYTES, max_rows)
    while chosen:
        try:
            parts = [PartitionBatches(*each.partition, each.offset, each.batches) for each in chosen]
            found = decode_arrow_partitions(parts)
        except DecompressedTooLarge as error:
            size = sum(_size(each.batches) for each in chosen)
            fewer = _within(chosen, size // 2)
            if sum(len(each.batches) for each in fewer) == sum(len(each.batches) for each in chosen):
                raise corrupt(chosen[0].partition, chosen[0].offset, error) from error
            chosen = fewer
            continue
        except RecordsError as error:
            raise corrupt(*_culprit(chosen), error) from error
        fetcher.skip_batches(chosen)
        if found.num_rows:
            return found
        chosen = _within(fetcher.peek_batches(), MAX_BYTES, max_rows)
    return None


def _within(peeked: list[Batches], max_bytes: int, max_rows: float = math.inf) -> list[Batches]:
    """The first batch, and those after it that fit."""
    chosen: list[Batches] = []
    left = max_bytes
    rows_left = max_rows
    for each in peeked:
        batches: list[BatchView] = []
        for batch in each.batches:
            if (left < batch.size or rows_left < batch.record_count) and (chosen or batches):
                break
            batches.append(batch)
            left -= batch.size
            rows_left -= batch.record_count
        if not batches:
            break
        chosen.append(each._replace(batches=batches))
        if len(batches) < len(each.batches):
            break
    return chosen


def _size(batches: list[BatchView]) -> int:
    return sum(batch.size for batch in batches)


def _culprit(chosen: list[Batches]) -> tuple[TopicPartition, int]:
    """The first batch that cannot be decoded."""
    for each in chosen:
        for batch in each.batches:
            try:
                batch.records()
            except RecordsError:
                return each.partition, max(batch.base_offset, each.offset)
    return chosen[0].partition, chosen[0].offset
