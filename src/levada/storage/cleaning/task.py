"""Orders to clean a log and their outcomes as bytes, for the way to a worker and back."""

import json
from dataclasses import asdict

from levada.records import RecordsError
from levada.storage.cleaning.cleaner import Cleaned, CleanedGroup, Cleaner, Order, Pause, SourceSegment
from levada.storage.cleaning.filtering import Counts, LastRecord
from levada.storage.formats import AbortedTransaction
from levada.storage.log_config import LogConfig
from levada.world.disk import Disk


class Faulty(Exception):
    """A log that cannot be cleaned; not before it is opened again, since what is in it will not change."""


class Hindered(Exception):
    """The disk, which may do better at another time, did not let a log be cleaned."""


def encode_order(order: Order) -> bytes:
    fields = asdict(order)
    fields["hash_key"] = order.hash_key.hex()
    fields["last_records"] = [[producer_id, *last] for producer_id, last in order.last_records.items()]
    return json.dumps(fields).encode()


def decode_order(data: bytes) -> Order:
    fields = json.loads(data)
    fields["config"] = LogConfig(**fields["config"])
    fields["sources"] = [SourceSegment(*source) for source in fields["sources"]]
    fields["later_aborts"] = [AbortedTransaction(**aborted) for aborted in fields["later_aborts"]]
    fields["hash_key"] = bytes.fromhex(fields["hash_key"])
    fields["last_records"] = {
        producer_id: LastRecord(data_offset, epoch) for producer_id, data_offset, epoch in fields["last_records"]
    }
    return Order(**fields)


def clean(argument: bytes, disk: Disk, pause: Pause) -> bytes:
    """In the worker: the outcome, or why there is none."""
    try:
        cleaned = Cleaner(disk, decode_order(argument), pause).clean()
    except RecordsError as error:
        return json.dumps({"damage": str(error)}).encode()
    except OSError as error:
        return json.dumps({"hindrance": str(error)}).encode()
    return json.dumps(asdict(cleaned)).encode()


def decode_cleaned(data: bytes) -> Cleaned:
    """Faulty or Hindered where there is no outcome."""
    fields = json.loads(data)
    if "damage" in fields:
        raise Faulty(fields["damage"])
    if "hindrance" in fields:
        raise Hindered(fields["hindrance"])
    groups = [
        CleanedGroup(group["base_offset"], tuple(group["source_bases"]), group["next_offset"])
        for group in fields["groups"]
    ]
    return Cleaned(groups, fields["end_offset"], fields["keys"], Counts(**fields["counts"]))
