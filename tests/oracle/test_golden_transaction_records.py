"""Reads and writes the records of `__transaction_state` as Apache Kafka 4.3.1 does."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from levada.cli.main import main
from levada.protocol.codec import encode_bytes
from levada.protocol.errors import CannotEncode
from levada.protocol.json_text import json_text, plain_of
from levada.records import iter_batches
from levada.transactions import Transaction, TransactionState
from levada.transactions.records import decode, encode
from levada.transactions.transaction import record_of, transaction_from
from tests.unit.transactions.journals import value_of

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "records"
ALL: list[Any] = json.loads((GOLDEN / "transaction-state.json").read_text())
WRITTEN = [golden for golden in ALL if "cannotBeWritten" not in golden]
VALUES = [golden for golden in WRITTEN if golden["value"] is not None]
OF_STATES = [golden for golden in VALUES if "state" in golden]


def name_of(golden: Any) -> str:
    return f"v{golden.get('valueVersion')} {golden['case']}"


def bytes_of(golden: Any) -> tuple[bytes, bytes | None]:
    value = golden["value"]
    return base64.b64decode(golden["key"]), None if value is None else base64.b64decode(value)


def test_all_states_are_there_at_all_levels_of_the_feature() -> None:
    # Dead is never written.
    assert {golden["stateId"] for golden in OF_STATES} == {state.number for state in TransactionState} - {
        TransactionState.DEAD.number
    }
    assert len(OF_STATES) == 3 * 7
    assert len(WRITTEN) - len(VALUES) == 1


@pytest.mark.parametrize("golden", VALUES, ids=name_of)
def test_a_record_says_what_apache_reads_in_it(golden: Any) -> None:
    record = decode(*bytes_of(golden))
    assert record is not None
    assert plain_of(record.key, 0) == golden["keyJson"]
    assert record.value is not None
    assert plain_of(record.value, golden["valueVersion"]) == golden["valueJson"]


@pytest.mark.parametrize("golden", WRITTEN, ids=name_of)
def test_a_record_is_written_back_to_the_byte(golden: Any) -> None:
    key, value = bytes_of(golden)
    record = decode(key, value)
    assert record is not None
    level = golden.get("valueVersion", 0)
    assert encode(record, transaction_version=level) == (key, value)


@pytest.mark.parametrize("golden", OF_STATES, ids=name_of)
def test_a_transaction_is_written_as_apaches_coordinator_writes_it(golden: Any) -> None:
    """At the level of the feature that the case names; topics in our order, which Apache leaves to chance."""
    key, value = bytes_of(golden)
    record = decode(key, value)
    transaction = transaction_from(golden["keyJson"]["transactionalId"], value_of(record))
    assert transaction is not None
    assert transaction.state.number == golden["stateId"]
    level = int(golden["case"].split()[-1])
    again: Any = value_of(decode(*encode(record_of(transaction), level)))
    written, expected = plain_of(again, golden["valueVersion"]), golden["valueJson"]
    assert _sorted(written) == _sorted(expected)


@pytest.mark.parametrize("golden", [one for one in ALL if "cannotBeWritten" in one], ids=name_of)
def test_what_has_no_place_in_version_0_is_refused_by_the_codec(golden: Any) -> None:
    full = next(one for one in VALUES if one["case"] == golden["case"] and one["valueVersion"] == 1)
    record = decode(*bytes_of(full))
    assert record is not None
    with pytest.raises(CannotEncode, match="previous_producer_id"):
        encode_bytes(record.value, 0)


def test_the_log_that_apache_wrote_says_what_its_own_tool_says() -> None:
    log = (GOLDEN / "__transaction_state-0" / "00000000000000000000.log").read_bytes()
    stored = [(record.key or b"", record.value) for batch in iter_batches(log) for record in batch.records()]
    dump = (GOLDEN / "__transaction_state-0.dump.txt").read_text().splitlines()
    told = [line.partition(" key: ")[2] for line in dump if line.startswith("| ")]
    assert [_told(key, value) for key, value in stored] == told
    assert len(stored) == len(OF_STATES) + 1


def test_the_log_is_dumped_to_the_letter(capsys: pytest.CaptureFixture[str]) -> None:
    log = GOLDEN / "__transaction_state-0" / "00000000000000000000.log"
    assert main(["dump-log", "--files", str(log), "--transaction-log-decoder"]) == 0
    expected = (GOLDEN / "__transaction_state-0.dump.txt").read_text()
    assert capsys.readouterr().out.replace(f"{log.parent}/", "") == expected


READ_BY_APACHE = (
    "0000000174"
    " 000100000000000000050006000000070203026103000000000000000200026202000000010000000000000000080000000000000009"
    "040008000000000000000a0108000000000000000b02020002904e111130313233343536373839616263646566"
)
"""What 4.3.1's `TransactionLog.read` took for the transaction below, with the group's tag among the unknown ones."""


def test_a_member_of_a_group_is_written_so_that_apache_reads_it() -> None:
    member = Transaction(
        transactional_id="t",
        producer_id=5,
        producer_epoch=6,
        timeout_ms=7,
        state=TransactionState.PREPARE_COMMIT,
        updated_ms=8,
        started_ms=9,
        partitions=frozenset({("a", 0), ("a", 2), ("b", 1)}),
        previous_producer_id=10,
        next_producer_id=11,
        client_version=2,
        group=b"0123456789abcdef",
    )
    key, value = encode(record_of(member))
    assert value is not None
    assert f"{key.hex()} {value.hex()}" == READ_BY_APACHE


def _told(key: bytes, value: bytes | None) -> str:
    record = decode(key, value)
    assert record is not None
    key_text = json_text({"type": "0", "data": plain_of(record.key, 0)})
    if value is None or record.value is None:
        return f"{key_text} payload: <DELETE>"
    version = int.from_bytes(value[:2], "big")
    data = plain_of(record.value, version)
    return f"{key_text} payload: {json_text({'version': str(version), 'data': data})}"


def _sorted(plain: dict[str, Any]) -> dict[str, Any]:
    partitions = plain["transactionPartitions"]
    if partitions is None:
        return plain
    topics = sorted((one["topic"], sorted(one["partitionIds"])) for one in partitions)
    return {**plain, "transactionPartitions": topics}
