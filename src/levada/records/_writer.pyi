from array import array
from collections.abc import Sequence
from typing import final

from levada.model.buffers import Buffer
from levada.records.compression import Codec
from levada.records.record import HeaderInput, RecordInput
from levada.records.sources import RecordSource

@final
class BatchWriter:
    def __init__(self, capacity: int, memory: bytearray | None = None) -> None: ...
    @property
    def count(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def base_timestamp(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    def append(
        self, timestamp_ms: int, key: Buffer | None, value: Buffer | None, headers: Sequence[HeaderInput] = ()
    ) -> int: ...
    def stop(self) -> None: ...
    def seal(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        is_transactional: bool,
        codec: Codec = ...,
        level: int | None = None,
    ) -> memoryview: ...
    def give_back(self) -> bytearray | None: ...
    def records(self) -> list[RecordInput]: ...

@final
class RecordColumns:
    def __init__(self, source: RecordSource) -> None: ...
    @property
    def row_count(self) -> int: ...

def write_lists(
    writers: Sequence[BatchWriter | None],
    partitions: Buffer | array[int] | None,
    timestamp_ms: int,
    keys: Sequence[Buffer | None] | None,
    values: Sequence[Buffer | None],
    start: int,
    stop: int,
) -> int: ...
def write_columns(
    writers: Sequence[BatchWriter | None],
    partitions: Buffer | array[int] | None,
    columns: RecordColumns,
    start: int,
    stop: int,
) -> int: ...
def partitions_of_list(keys: Sequence[Buffer | None], partition_count: int) -> array[int]: ...
def partitions_of_columns(columns: RecordColumns, partition_count: int) -> array[int]: ...
def murmur2(data: Buffer) -> int: ...
