"""`levada delete-records`: deletes the oldest records of partitions, up to an offset of each."""

import argparse
import json
from typing import TYPE_CHECKING, Any, Final

from levada.cli.kit.batches import in_batches
from levada.cli.kit.connecting import add_connection, admin_for
from levada.cli.kit.files import read_text
from levada.cli.kit.refusals import Refused
from levada.cli.kit.terminal import paint

if TYPE_CHECKING:
    from levada.client.types import TopicPartition

VERSION: Final = 1
SHAPE: Final = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "offset": 100}]}'
FLAG: Final = "--offset-json-file"
NUMBERS: Final = {"partition": range(2**31), "offset": range(-(2**63), 2**63)}
"""What fits into a request."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_connection(parser)
    parser.add_argument(
        FLAG, metavar="FILE", required=True,
        help=f"the first offset to keep of each partition, or -1 to keep none of what is committed: {SHAPE}",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    before = parse(read_text(arguments.offset_json_file, FLAG))
    with admin_for(arguments) as admin:
        print("Executing records delete operation", flush=True)
        deleted = in_batches(
            "deleting records",
            list(before),
            lambda some: admin.delete_records({partition: before[partition] for partition in some}),
        )
    print("Records delete operation completed:")
    for partition in before:
        if (error := deleted.errors.get(partition)) is None:
            print(f"partition: {partition}\tlow_watermark: {deleted[partition]}")
        else:
            print(f"partition: {partition}\t{paint('error', 'red')}: {error}")
    return 0


def parse(text: str) -> "dict[TopicPartition, int]":
    """Refused for what is not a list of offsets, and for a partition that is listed twice."""
    from levada.client.types import TopicPartition

    before: dict[TopicPartition, int] = {}
    twice: list[str] = []
    for entry in _entries(text):
        partition = TopicPartition(_text(entry, "topic"), _number(entry, "partition"))
        if partition in before:
            twice.append(str(partition))
        before[partition] = _number(entry, "offset")
    if twice:
        raise Refused(f"{FLAG} has more than one offset for {', '.join(dict.fromkeys(twice))}: keep one of them")
    return before


def _entries(text: str) -> list[Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise Refused(f"{FLAG} is not JSON: {error}; it should look like {SHAPE}") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise Refused(f"{FLAG} has no list of partitions; it should look like {SHAPE}")
    if (version := document.get("version", VERSION)) != VERSION:
        raise Refused(f"{FLAG} has the version {version!r}, and only {VERSION} is known")
    entries: list[Any] = document["partitions"]
    return entries


def _text(entry: Any, name: str) -> str:
    value = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(value, str):
        raise Refused(f"{FLAG}: {name!r} should be a text in {json.dumps(entry)}; it should look like {SHAPE}")
    return value


def _number(entry: Any, name: str) -> int:
    value = entry.get(name) if isinstance(entry, dict) else None
    # To Python, true is a number.
    if not isinstance(value, int) or isinstance(value, bool) or value not in NUMBERS[name]:
        raise Refused(f"{FLAG}: {name!r} should be a number in {json.dumps(entry)}; it should look like {SHAPE}")
    return value
