"""The lines of dumped checkpoint files, which Apache Kafka's tool does not read; they are a line a field or entry."""

from collections.abc import Callable, Iterator

from levada.model.config import ConfigError
from levada.model.properties import parse_properties
from levada.storage.formats import CorruptFile


def dumper_of(name: str) -> Callable[[str], Iterator[str]] | None:
    """What dumps the text file of this name, or None."""
    if name.endswith("-offset-checkpoint"):
        return offset_checkpoint_lines
    return _BY_NAME.get(name)


def offset_checkpoint_lines(text: str) -> Iterator[str]:
    """`topic partition offset` of recovery points, log starts, high watermarks or the cleaner."""
    return _checkpoint_lines(text, ("topic", "partition", "offset"), numbers=2)


def leader_epoch_lines(text: str) -> Iterator[str]:
    return _checkpoint_lines(text, ("epoch", "startOffset"), numbers=2)


def properties_lines(text: str) -> Iterator[str]:
    try:
        properties = parse_properties(text)
    except ConfigError as error:
        raise CorruptFile(str(error)) from None
    if not properties:
        raise CorruptFile("no property")
    return (f"{key}: {value}" for key, value in properties.items())


def partition_metadata_lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if not colon or not name.isidentifier():
            raise CorruptFile(f"no `name: value` in {line!r}")
        yield f"{name}: {value.strip()}"


def _checkpoint_lines(text: str, fields: tuple[str, ...], numbers: int) -> Iterator[str]:
    """A version, a count, and as many entries; the last `numbers` fields of an entry are whole numbers."""
    lines = text.splitlines()
    if not lines:
        return
    if lines[0] != "0":
        raise CorruptFile(f"a checkpoint of version {lines[0]!r}")
    yield "version: 0"
    entries = lines[2:]
    if lines[1:2] != [str(len(entries))]:
        raise CorruptFile(f"a checkpoint with {len(entries)} entries that names {''.join(lines[1:2])!r}")
    yield f"entries: {len(entries)}"
    for line in entries:
        values = line.split(" ")
        if len(values) != len(fields) or not all(map(_is_number, values[-numbers:])):
            raise CorruptFile(f"no `{' '.join(fields)}` in {line!r}")
        yield " ".join(f"{field}: {value}" for field, value in zip(fields, values))


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit()


_BY_NAME: dict[str, Callable[[str], Iterator[str]]] = {
    "leader-epoch-checkpoint": leader_epoch_lines,
    "partition.metadata": partition_metadata_lines,
    "meta.properties": properties_lines,
}
