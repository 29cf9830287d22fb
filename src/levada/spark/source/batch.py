"""The batch reader: a topic, or a part of it, as a table."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from levada.client.types import TopicPartition
from levada.spark.options import OptionError
from levada.spark.source.bounds import EARLIEST, LATEST
from levada.spark.source.loss import report, within_log
from levada.spark.source.pushdown import Narrowing, narrowing
from levada.spark.source.ranges import OffsetRange, split
from levada.spark.source.settings import batch_settings

if TYPE_CHECKING:
    import pyarrow as pa

    from levada.spark.source.brokers import Brokers


class TopicReader(DataSourceReader):
    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = batch_settings(options)
        self._narrowing = Narrowing()

    @property
    def pushFilters(self) -> "_Pushdown":
        """Takes filters as the base class's method does; see there why it is no method."""
        return _Pushdown(self)

    def take_filters(self, filters: Iterable[Filter]) -> None:
        self._narrowing = narrowing(filters)

    def partitions(self) -> Sequence[InputPartition]:
        read = self._settings.read
        from levada.spark.source.brokers import Brokers

        with Brokers(read) as brokers:
            ranges = self._narrowed(self._ranges(brokers), brokers)
        return split(ranges, read.min_partitions, read.max_records_per_partition)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if not isinstance(partition, OffsetRange):
            # Where there is nothing to read, Spark makes up a partition.
            return iter(())
        from levada.spark.source.reading import read_range

        return read_range(partition, self._settings.read)

    def _ranges(self, brokers: "Brokers") -> list[OffsetRange]:
        read = self._settings.read
        layout = brokers.layout_at_start(read.selection)
        starts = brokers.resolve(read.start, layout.partitions, late_is_end=read.starts_late_at_end)
        ends = brokers.resolve(self._settings.end, layout.partitions, late_is_end=True)
        earliest = brokers.offsets(dict.fromkeys(layout.partitions, EARLIEST))
        latest = brokers.offsets(dict.fromkeys(layout.partitions, LATEST))
        for each in sorted(ends.keys() & starts.keys() & latest.keys()):
            if ends[each] < starts[each] <= latest[each]:
                raise OptionError(
                    f"{each} would be read from offset {starts[each]} to {ends[each]}: end after the start"
                )
        ranges, losses = within_log(starts, ends, earliest, latest)
        report(losses, fails=read.fails_on_data_loss)
        return ranges

    def _narrowed(self, ranges: list[OffsetRange], brokers: "Brokers") -> list[OffsetRange]:
        since_ms = self._narrowing.since_ms
        if since_ms is None:
            return self._narrowing.narrow(ranges, {})
        wanted = [TopicPartition(each.topic, each.partition) for each in ranges]
        found = brokers.offsets({partition: since_ms for partition in wanted if self._narrowing.wants(partition)})
        first_since = {partition: None if offset < 0 else offset for partition, offset in found.items()}
        return self._narrowing.narrow(ranges, first_since)


class _Pushdown:
    """Takes the filters of a reader.

    Spark refuses a reader with a `pushFilters` of its own while `spark.sql.python.filterPushdown.enabled` is off, as it
    is by default; it looks at `__func__` to find out. A plain session must be able to read as well. So this passes for
    the method of the base class: without pushdown it is never called, and nothing is lost, as all filters stay with
    Spark anyway.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: TopicReader) -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.take_filters(filters)
        return filters
