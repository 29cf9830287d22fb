"""Producer snapshots as Apache writes and reads them."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from levada.storage.formats import CorruptFile, decode_snapshot, encode_snapshot
from levada.storage.producers import Producers

SNAPSHOTS: list[Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "golden" / "records" / "producer-snapshots.json").read_text()
)
NAMES = [one["file"] for one in SNAPSHOTS]


@pytest.mark.parametrize("golden", SNAPSHOTS, ids=NAMES)
def test_a_snapshot_reads_as_apache_reads_it_and_is_written_back_alike(golden: Any) -> None:
    data = base64.b64decode(golden["bytes"])
    entries = decode_snapshot(data)
    assert encode_snapshot(entries) == data
    found = {entry.producer_id: entry for entry in entries}
    assert len(found) == len(golden["producers"])
    for expected in golden["producers"]:
        entry = found[expected["producerId"]]
        assert entry.epoch == expected["producerEpoch"]
        assert entry.coordinator_epoch == expected["coordinatorEpoch"]
        assert entry.timestamp_ms == expected["lastTimestamp"]
        assert entry.last_offset == expected["lastDataOffset"]
        start = expected["currentTxnFirstOffset"]
        assert entry.current_transaction_first_offset == (-1 if start is None else start)
        for batch in expected["batches"]:
            assert entry.last_sequence == batch["lastSeq"]
            assert entry.offset_delta == batch["offsetDelta"]


@pytest.mark.parametrize("golden", SNAPSHOTS, ids=NAMES)
def test_producers_that_were_restored_write_the_same_snapshot(golden: Any) -> None:
    data = base64.b64decode(golden["bytes"])
    producers = Producers()
    producers.restore(decode_snapshot(data), 100, now_ms=0, expiration_ms=1)
    assert encode_snapshot(producers.entries()) == data


@pytest.mark.parametrize("golden", SNAPSHOTS[:6], ids=NAMES[:6])
def test_every_damage_to_a_snapshot_is_seen(golden: Any) -> None:
    data = base64.b64decode(golden["bytes"])
    for size in range(len(data)):
        with pytest.raises(CorruptFile):
            decode_snapshot(data[:size])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptFile):
            decode_snapshot(bytes(damaged))
