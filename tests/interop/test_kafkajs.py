"""kafkajs (npm) against a real broker; it consumes through a group, as it always does."""

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import BrokerProcess
from tests.integration.samples import CODECS, samples

HERE = Path(__file__).parent / "kafkajs"


@pytest.fixture(scope="module")
def program() -> Path:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, so kafkajs was not tried")
    if not (HERE / "node_modules").exists():
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"],
            cwd=HERE,
            check=True,
            capture_output=True,
        )
    return HERE / "roundtrip.js"


def encoded(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


@pytest.mark.parametrize("acks", [0, 1, -1])
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back_as_they_were_sent(broker: BrokerProcess, program: Path, codec: str, acks: int) -> None:
    records: list[dict[str, Any]] = [
        {
            "key": encoded(one.key),
            "value": encoded(one.value),
            # An object's keys are unique, and this client cannot write a header without a value.
            "headers": [[name, encoded(value or b"")] for name, value in dict(one.headers).items()],
            "timestamp": one.timestamp_ms,
        }
        for one in samples()
    ]
    job = {
        "bootstrap": broker.bootstrap,
        "topic": f"kafkajs-{codec}-{acks}",
        "codec": codec,
        "acks": acks,
        "idempotent": acks == -1,
        "records": records,
    }
    result = subprocess.run(
        ["node", str(program)], input=json.dumps(job), capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    received = json.loads(result.stdout.splitlines()[-1])
    assert [one.pop("offset") for one in received] == list(range(len(records)))
    assert received == records
