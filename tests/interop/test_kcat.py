"""kcat (Debian) against a real broker."""

import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.brokers import BrokerProcess
from tests.integration.samples import CODECS

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed, so it was not tried")


def kcat(*arguments: str, standard_input: bytes = b"") -> bytes:
    result = subprocess.run(["kcat", *arguments], input=standard_input, capture_output=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr.decode()
    return result.stdout


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize("codec", CODECS)
def test_lines_with_keys_and_headers_come_back(broker: BrokerProcess, codec: str, acks: str) -> None:
    topic = f"kcat-{codec}-{acks}"
    lines = [f"key{number}:value {number}" for number in range(500)]
    settings = ["-b", broker.bootstrap, "-t", topic]
    kcat(
        "-P", *settings, "-z", codec, "-X", f"acks={acks}", "-K:", "-H", "trace=1",
        standard_input="\n".join(lines).encode(),
    )  # fmt: skip
    output = kcat("-C", *settings, "-e", "-q", "-o", "beginning", "-f", "%k:%s|%h|%o\n").decode().splitlines()
    assert output == [f"{line}|trace=1|{offset}" for offset, line in enumerate(lines)]


@pytest.mark.parametrize("size", [1, 1_000, 1_000_000])
@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_size_come_back(broker: BrokerProcess, tmp_path: Path, codec: str, size: int) -> None:
    topic = f"kcat-size-{codec}-{size}"
    value = random.Random(size).randbytes(size)
    file = tmp_path / "value"
    file.write_bytes(value)
    settings = ["-b", broker.bootstrap, "-t", topic, "-X", "message.max.bytes=1048588"]
    kcat("-P", *settings, "-z", codec, str(file))
    assert kcat("-C", *settings, "-e", "-q", "-o", "beginning", "-D", "", "-f", "%s") == value


def test_null_keys_and_values_and_timestamps_are_kept(broker: BrokerProcess) -> None:
    settings = ["-b", broker.bootstrap, "-t", "kcat-nulls"]
    kcat("-P", *settings, "-Z", "-K:", standard_input=b"key:\n:value\n")
    received = [json.loads(line) for line in kcat("-C", *settings, "-e", "-q", "-J", "-o", "beginning").splitlines()]
    assert [(one["key"], one["payload"]) for one in received] == [("key", None), (None, "value")]
    assert all(one["ts"] > 1_700_000_000_000 for one in received)


def test_metadata_lists_the_broker_and_its_topics(broker: BrokerProcess) -> None:
    kcat("-P", "-b", broker.bootstrap, "-t", "kcat-listed", standard_input=b"x")
    listed = json.loads(kcat("-L", "-J", "-b", broker.bootstrap))
    assert listed["brokers"] == [{"id": 1, "name": broker.bootstrap}]
    assert "kcat-listed" in [topic["topic"] for topic in listed["topics"]]


def test_offsets_are_found_by_time(broker: BrokerProcess) -> None:
    kcat("-P", "-b", broker.bootstrap, "-t", "kcat-times", standard_input=b"a\nb\nc\n")
    assert kcat("-Q", "-b", broker.bootstrap, "-t", "kcat-times:0:-1").strip() == b"kcat-times [0] offset 3"
    assert kcat("-Q", "-b", broker.bootstrap, "-t", "kcat-times:0:1").strip() == b"kcat-times [0] offset 0"


def test_a_group_consumes_everything(broker: BrokerProcess) -> None:
    kcat("-P", "-b", broker.bootstrap, "-t", "kcat-group", standard_input=b"\n".join(b"%d" % n for n in range(100)))
    settings = ["-X", "auto.offset.reset=earliest", "-e", "-q", "-f", "%s\n"]
    output = kcat("-b", broker.bootstrap, "-G", "kcat-group", *settings, "kcat-group")
    assert output.split() == [b"%d" % n for n in range(100)]
