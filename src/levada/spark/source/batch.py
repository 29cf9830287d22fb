"""The batch reader: a topic, or a part of it, as a table."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from levada.spark.options import OptionError
from levada.spark.source.bounds import EARLIEST, LATEST
from levada.spark.source.loss import report, within_log
from levada.spark.source.ranges import OffsetRange, split
from levada.spark.source.settings import batch_settings
from levada.spark.worker_memory import keep_loaded

if TYPE_CHECKING:
    import pyarrow as pa

    from levada.spark.source.brokers import Brokers


class TopicReader(DataSourceReader):
    """It takes no filters: Spark keeps one plan of what is read for all uses of a frame, and the filters of the last
    use would be those of all others. Options say what part of a topic is read."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._settings = batch_settings(options)

    def partitions(self) -> Sequence[InputPartition]:
        read = self._settings.read
        from levada.spark.source.brokers import Brokers

        with Brokers(read) as brokers:
            ranges = self._ranges(brokers)
        return split(ranges, read.min_partitions, read.max_records_per_partition)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        if not isinstance(partition, OffsetRange):
            # Where there is nothing to read, Spark makes up a partition.
            return iter(())
        from levada.spark.source.reading import read_ranges

        keep_loaded()
        return read_ranges([partition], self._settings.read)

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
