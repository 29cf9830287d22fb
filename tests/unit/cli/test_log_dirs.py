"""What `levada log-dirs` makes of the brokers' answers."""

import json

from levada.cli.log_dirs import apaches_document, document
from levada.client.admin import LogDirectory, ReplicaSize
from levada.client.errors import error_for
from levada.client.types import TopicPartition
from levada.model.error_codes import ErrorCode

SOUND = LogDirectory(
    path="/data/a",
    error=None,
    replicas={
        TopicPartition("orders", 10): ReplicaSize(70, 0, is_future=False),
        TopicPartition("orders", 9): ReplicaSize(60, 5, is_future=True),
        TopicPartition("bills", 0): ReplicaSize(50, 0, is_future=False),
    },
    total_bytes=1_000,
    usable_bytes=400,
    is_cordoned=True,
)
BROKEN = LogDirectory("/data/b", error_for(ErrorCode.KAFKA_STORAGE_ERROR, context="/data/b"), {}, None, None, False)
BROKERS = {0: {"/data/b": BROKEN, "/data/a": SOUND}, 2: {"/data/a": SOUND}}


def test_the_document_has_apaches_keys_in_apaches_order() -> None:
    text = json.dumps(apaches_document({2: {"/data/a": SOUND}}, {"bills"}), separators=(",", ":"))
    assert text == (
        '{"brokers":[{"broker":2,"logDirs":[{"partitions":[{"partition":"bills-0","size":50,"offsetLag":0,'
        '"isFuture":false}],"error":null,"logDir":"/data/a"}]}],"version":1}'
    )


def test_directories_and_partitions_are_in_order() -> None:
    (first, second) = apaches_document(BROKERS, set())["brokers"]
    assert [one["logDir"] for one in first["logDirs"]] == ["/data/a", "/data/b"]
    assert [one["partition"] for one in second["logDirs"][0]["partitions"]] == ["bills-0", "orders-9", "orders-10"]


def test_an_error_has_the_name_of_apaches_exception() -> None:
    (_, broken) = apaches_document(BROKERS, set())["brokers"][0]["logDirs"]
    assert broken["error"] == "org.apache.kafka.common.errors.KafkaStorageException"


def test_our_document_also_tells_space_and_reasons() -> None:
    (sound, broken) = document(BROKERS, {"orders"})["brokers"][0]["log_dirs"]
    assert (sound["total_bytes"], sound["usable_bytes"], sound["is_cordoned"]) == (1_000, 400, True)
    assert [(one["partition"], one["offset_lag"], one["is_future"]) for one in sound["partitions"]] == [
        (9, 5, True),
        (10, 0, False),
    ]
    assert "KAFKA_STORAGE_ERROR" in broken["error"]
