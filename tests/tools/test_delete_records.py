"""`levada delete-records` where no golden text can say it: many partitions, interruptions."""

import json
from pathlib import Path

from levada import Admin, Producer
from levada.cli.kit.batches import BATCH
from levada.client.admin import NewTopic
from tests.tools.interrupting import interrupted
from tests.tools.running import run_ours
from tests.tools.stages import our_stage

PARTITIONS = BATCH + 2


def offsets_file(directory: Path, offsets: dict[int, int]) -> str:
    path = directory / "offsets.json"
    entries = [{"topic": "wide", "partition": index, "offset": offset} for index, offset in offsets.items()]
    path.write_text(json.dumps({"partitions": entries}))
    return str(path)


def test_more_partitions_than_fit_one_request(tmp_path: Path) -> None:
    path = offsets_file(tmp_path, dict.fromkeys(range(PARTITIONS), 1))
    with our_stage(tmp_path) as stage:
        with Admin(stage.bootstrap) as admin, Producer(stage.bootstrap) as producer:
            admin.create_topics([NewTopic("wide", PARTITIONS)]).raise_any()
            for sent in [producer.send("wide", b"", partition=index) for index in range(PARTITIONS)]:
                sent.result()
        ran = run_ours(["delete-records", "--offset-json-file", path, "--bootstrap-server", stage.bootstrap])
    assert ran.code == 0
    assert ran.out.splitlines()[2:] == [f"partition: wide-{index}\tlow_watermark: 1" for index in range(PARTITIONS)]


def test_who_interrupts_hears_that_records_may_be_gone(tmp_path: Path) -> None:
    ran = interrupted(["delete-records", "--offset-json-file", offsets_file(tmp_path, {0: 1})])
    assert ran.code == 130
    assert ran.err == (
        "levada: interrupted while deleting records: 0 of 1 were seen to, the rest may or may not have been done\n"
    )


def test_a_torn_file_is_refused_before_any_broker_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "torn.json"
    path.write_text('{"partitions": [')
    ran = run_ours(["delete-records", "--offset-json-file", str(path), "--bootstrap-server", "localhost:1"])
    assert ran.code == 1
    assert ran.err.startswith("levada: --offset-json-file is not JSON")
