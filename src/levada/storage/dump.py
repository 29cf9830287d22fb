"""Dumps the files of a log directory as lines of text, as Apache Kafka's DumpLogSegments prints them."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field

from levada.records import RecordsError
from levada.storage.dump_batches import Window
from levada.storage.dump_index import (
    DumpedOffsetIndex,
    TimeIndexFaults,
    check_time_index,
    offset_index_lines,
    snapshot_lines,
    time_index_lines,
    transaction_index_lines,
)
from levada.storage.dump_log import LogOptions, log_lines
from levada.storage.dump_text import dumper_of
from levada.storage.formats import CorruptFile
from levada.world.disk import Disk

DEFAULT_MAX_MESSAGE_SIZE = 5 << 20


class CannotDump(Exception):
    """One line that says why a file could not be dumped to its end."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    log: LogOptions = field(default_factory=LogOptions)
    sanity_check_only: bool = False
    """Of an index, only say whether a broker would accept it."""
    verify_only: bool = False
    """Of an index, only the faults."""
    max_message_size: int = DEFAULT_MAX_MESSAGE_SIZE


class Dump:
    """Dumps one file after the other, and keeps what does not fit together for a report at the end."""

    def __init__(self, disk: Disk, options: DumpOptions, absolute: Callable[[str], str]) -> None:
        """`absolute` completes a path: Apache's reports name files that way."""
        self._disk = disk
        self._options = options
        self._absolute = absolute
        self._index_mismatches: dict[str, dict[int, int]] = {}
        self._time_faults: dict[str, TimeIndexFaults] = {}
        self._gaps: dict[str, dict[int, int]] = {}
        self._dumpers: dict[str, Callable[[str], Iterator[str]]] = {
            "log": self._log,
            "index": self._index,
            "timeindex": self._time_index,
            "txnindex": self._transaction_index,
            "snapshot": self._snapshot,
        }

    def lines(self, path: str) -> Iterator[str]:
        """The file's lines, as far as it can be read; then CannotDump if there was more."""
        yield f"Dumping {path}"
        name = _name_of(path)
        of_text = dumper_of(name)
        try:
            if of_text is not None:
                yield from of_text(self._text(path))
            elif "." in name and (dumper := self._dumpers.get(name.rpartition(".")[2])):
                yield from dumper(path)
            else:
                raise CannotDump(f"Ignoring unknown file {path}")
        except OSError as error:
            raise CannotDump(f"levada: cannot read {error.filename or path}: {error.strerror or error}") from error
        except (RecordsError, CorruptFile) as error:
            raise CannotDump(f"levada: {path}: {error}") from error

    def faults(self) -> Iterator[str]:
        """What did not fit together in the files dumped so far."""
        for path, mismatches in self._index_mismatches.items():
            yield f"Mismatches in :{path}"
            for indexed, found in sorted(mismatches.items(), reverse=True):
                yield f"  Index offset: {indexed}, log offset: {found}"
        yield from self._time_index_faults()
        for path, gaps in self._gaps.items():
            yield f"Non-consecutive offsets in {path}"
            for offset, following in sorted(gaps.items()):
                yield f"  {offset} is followed by {following}"

    def _time_index_faults(self) -> Iterator[str]:
        for path, faults in self._time_faults.items():
            if faults.mismatches:
                yield f"Found timestamp mismatch in :{path}"
            for indexed, found in faults.mismatches:
                yield f"  Index timestamp: {indexed}, log timestamp: {found}"
        for path, faults in self._time_faults.items():
            if faults.out_of_order:
                yield f"Found out of order timestamp in :{path}"
            for indexed, previous in faults.out_of_order:
                yield f"  Index timestamp: {indexed}, Previously indexed timestamp: {previous}"
        for path, faults in self._time_faults.items():
            if faults.not_found:
                yield f"The following indexed offsets are not found in :{path}"
            for indexed, found in faults.not_found:
                yield f"Indexed offset: {indexed}, found log offset: {found}"

    def _log(self, path: str) -> Iterator[str]:
        yield f"Log starting offset: {_base_offset(path)}"

        def note_gap(offset: int, following: int) -> None:
            self._gaps.setdefault(self._absolute(path), {})[offset] = following

        with closing(self._disk.open(path)) as file:
            yield from log_lines(file, _name_of(path), self._options.log, note_gap)

    def _index(self, path: str) -> Iterator[str]:
        base_offset = _base_offset(path)

        def note_mismatch(indexed: int, found: int) -> None:
            self._index_mismatches.setdefault(self._absolute(path), {})[indexed] = found

        with closing(self._disk.open(self._beside(path, "log"))) as log:
            index = DumpedOffsetIndex(self._bytes(path), base_offset)
            if not index.entry_count:
                yield f"{path} is empty."
            elif self._options.sanity_check_only:
                index.check(self._absolute(path))
                yield f"{path} passed sanity check."
            else:
                lines = offset_index_lines(index, Window(log), self._options.max_message_size, note_mismatch)
                yield from self._unless_verifying(lines)

    def _time_index(self, path: str) -> Iterator[str]:
        base_offset = _base_offset(path)
        with closing(self._disk.open(self._beside(path, "log"))) as log:
            index = DumpedOffsetIndex(self._bytes(self._beside(path, "index")), base_offset)
            data = self._bytes(path)
            if self._options.sanity_check_only:
                check_time_index(data, base_offset, self._absolute(path))
                yield f"{path} passed sanity check."
            else:
                faults = self._time_faults.setdefault(self._absolute(path), TimeIndexFaults())
                yield from self._unless_verifying(time_index_lines(data, base_offset, index, Window(log), faults))

    def _transaction_index(self, path: str) -> Iterator[str]:
        _base_offset(path)
        return transaction_index_lines(self._bytes(path))

    def _snapshot(self, path: str) -> Iterator[str]:
        return snapshot_lines(self._bytes(path))

    def _unless_verifying(self, lines: Iterator[str]) -> Iterator[str]:
        return (line for line in lines if not self._options.verify_only)

    def _beside(self, path: str, suffix: str) -> str:
        directory, slash, name = self._absolute(path).rpartition("/")
        return f"{directory}{slash}{name.partition('.')[0]}.{suffix}"

    def _bytes(self, path: str) -> bytes:
        """The whole of a file that is no .log: those are as large as segments, the others have a few MB."""
        with closing(self._disk.open(path)) as file:
            return file.read(0, file.size())

    def _text(self, path: str) -> str:
        try:
            return self._bytes(path).decode()
        except UnicodeDecodeError as error:
            raise CorruptFile(f"not a text: {error.reason} at byte {error.start}") from error


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _base_offset(path: str) -> int:
    digits = _name_of(path).partition(".")[0]
    if not (digits.isascii() and digits.isdigit()):
        raise CorruptFile("its name does not begin with an offset")
    return int(digits)
