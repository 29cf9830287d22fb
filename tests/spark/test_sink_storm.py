"""The sink's protocol in processes that are killed at random moments, far more often than Spark could be started."""

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from levada import Admin
from levada.client.admin import NewTopic
from tests.brokers import BrokerProcess
from tests.spark.copying import ROOT, WholeBatches
from tests.spark.sink_checks import check_nothing_hangs, numbers, partitions_of

IS_SOAK = os.environ.get("LEVADA_SOAK") == "1"
BATCHES, ROWS_PER_BATCH, KILLS = (1_200, 2_500, 60) if IS_SOAK else (80, 400, 6)
START_SECONDS = 60.0


def has_committed(process: "subprocess.Popen[str]", notes: Path, batches: int) -> None:
    """Wait until the process has committed so many batches more, or has ended."""
    wanted, give_up_at = len(list(notes.iterdir())) + batches, time.monotonic() + START_SECONDS
    while process.poll() is None and len(list(notes.iterdir())) < wanted and time.monotonic() < give_up_at:
        time.sleep(0.005)


def killed_or_done(process: "subprocess.Popen[str]", notes: Path, batches: int, seconds: float) -> int | None:
    """Wait for the process to end, or kill it so long after it has committed so many batches."""
    has_committed(process, notes, batches)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


@pytest.mark.timeout(3_600 if IS_SOAK else 300)
def test_rows_are_visible_once_when_drivers_and_brokers_are_killed_at_random(
    own_broker: BrokerProcess, tmp_path: Path
) -> None:
    bootstrap, notes = own_broker.bootstrap, tmp_path / "notes"
    notes.mkdir()
    with Admin(bootstrap) as admin:
        admin.create_topics([NewTopic("target", 3)]).raise_any()
    chance = random.Random(8)
    kills = 0
    with WholeBatches(bootstrap, partitions_of(bootstrap, "target")) as reader:
        while len(list(notes.iterdir())) < BATCHES:
            job = {
                "bootstrap": bootstrap,
                "target": "target",
                "query": "storm",
                "notes": str(notes),
                "batches": BATCHES,
                "rows_per_batch": ROWS_PER_BATCH,
                "tasks": chance.choice((1, 2, 3, 5)),
            }
            command = [sys.executable, "-m", "tests.spark.driver_plain", json.dumps(job)]
            process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
            if kills >= KILLS:
                assert process.communicate()[1] == ""
                continue
            if kills % 3 == 2:
                has_committed(process, notes, chance.randint(2, 8))
                own_broker.kill()
                own_broker.start()
                kills += 1
            code = killed_or_done(process, notes, chance.randint(1, 3), chance.uniform(0, 0.03))
            said = process.stderr.read() if process.stderr is not None else ""
            assert code in (None, 0), said
            kills += code is None
    print(f"{kills} kills, {reader.looks} looks of the reader")
    assert kills >= KILLS
    assert numbers(bootstrap, "target") == list(range(BATCHES * ROWS_PER_BATCH))
    assert {key: counts for key, counts in reader.counts.items() if len(counts) > 1} == {}
    check_nothing_hangs(bootstrap, "target")
