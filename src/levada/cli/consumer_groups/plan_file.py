"""The CSV that --export prints and --from-file reads: topic,partition,offset, with the group in front or not."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from levada.cli.consumer_groups.scope import partition_number
from levada.cli.kit.files import read_text
from levada.cli.kit.refusals import Refused
from levada.client.types import TopicPartition

Offsets = dict[TopicPartition, int]

FIELDS: Final = ("group", "topic", "partition", "offset")


def read_plan(path: str, groups: Sequence[str]) -> dict[str, Offsets]:
    """Offsets by group; lines without a group are about the only one."""
    return parse_plan(read_text(path, "--from-file"), path, groups)


def parse_plan(text: str, path: str, groups: Sequence[str]) -> dict[str, Offsets]:
    """
    >>> parse_plan("orders,0,7", "plan.csv", ["billing"])
    {'billing': {TopicPartition(topic='orders', partition=0): 7}}
    """
    # Rows are lines: a quoted name cannot go on in the next one, here as little as with Kafka.
    rows = [next(csv.reader([line]), []) for line in text.rstrip("\r\n").split("\n")]
    has_groups = len(groups) != 1 or len(rows[0]) == len(FIELDS)
    plan: dict[str, Offsets] = {}
    for number, row in enumerate(rows, start=1):
        try:
            group, partition, offset = _entry(row if has_groups else [groups[0], *row])
        except ValueError:
            wanted = ",".join(FIELDS if has_groups else FIELDS[1:])
            raise Refused(f"--from-file {path}, line {number}: {','.join(row)!r} is not {wanted}") from None
        plan.setdefault(group, {})[partition] = offset
    return plan


def _entry(row: Sequence[str]) -> tuple[str, TopicPartition, int]:
    group, topic, partition, offset = row
    if not group or not topic:
        raise ValueError
    return group, TopicPartition(topic, partition_number(partition.strip())), int(offset)


def export_lines(group: str, offsets: Mapping[TopicPartition, int], *, with_group: bool) -> Iterator[str]:
    """
    >>> list(export_lines("billing", {TopicPartition("orders", 0): 7}, with_group=True))
    ['billing,orders,0,7']
    """
    for partition, offset in sorted(offsets.items()):
        out = io.StringIO()
        csv.writer(out, lineterminator="").writerow([*([group] if with_group else []), *partition, offset])
        yield out.getvalue()
