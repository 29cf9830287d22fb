"""Scenario 26, the texts of a reassignment: as far as one broker can show it, then with three brokers."""

import json
from pathlib import Path

from levada.cli.reassign_partitions.plan import plan_text, read_plan, read_topics
from levada.cli.reassign_partitions.progress import partition_lines, partition_progress
from levada.client.admin import PartitionDescription, TopicDescription
from levada.client.types import TopicPartition
from tests.tools.running import run_ours
from tests.tools.stages import our_stage

PLAN = '{"version":1,"partitions":[{"topic":"three","partition":0,"replicas":[0,1],"log_dirs":["any","any"]}]}'
TOPICS = '{"topics":[{"topic":"first"}],"version":1}'


def test_scenario_26_on_one_broker(tmp_path: Path) -> None:
    with our_stage(tmp_path) as stage:

        def tool(line: str) -> list[str]:
            name, *rest = line.split()
            ran = run_ours([name, "--bootstrap-server", stage.bootstrap, *rest])
            assert (ran.code, ran.err) == (0, "")
            return ran.out.splitlines()

        tool("topics --create --topic three --partitions 3")
        (tmp_path / "topics.json").write_text(TOPICS.replace("first", "three"))
        generated = tool(
            f"reassign-partitions --generate --topics-to-move-json-file {tmp_path}/topics.json --broker-list 1"
        )
        assert generated[0] == "Current partition replica assignment"
        assert generated[3] == "Proposed partition reassignment configuration"
        (tmp_path / "plan.json").write_text(generated[4])

        current, blank, saved, _, rollback, started = tool(
            f"reassign-partitions --execute --reassignment-json-file {tmp_path}/plan.json"
        )
        assert (current, blank) == ("Current partition replica assignment", "")
        assert [one["replicas"] for one in json.loads(saved)["partitions"]] == [[1], [1], [1]]
        assert rollback == "Save this to use as the --reassignment-json-file option during rollback"
        assert started == "Successfully started partition reassignments for three-0,three-1,three-2"

        # The scenario says "complete", as older releases did; Apache 4.3 says "completed".
        assert tool(f"reassign-partitions --verify --reassignment-json-file {tmp_path}/plan.json") == [
            "Status of partition reassignment:",
            "Reassignment of partition three-0 is completed.",
            "Reassignment of partition three-1 is completed.",
            "Reassignment of partition three-2 is completed.",
            "",
            "Clearing broker-level throttles on broker 1",
            "Clearing topic-level throttles on topic three",
        ]
        # What was saved takes it back.
        (tmp_path / "saved.json").write_text(saved.replace(str(tmp_path / "data"), "any"))
        assert tool(f"reassign-partitions --execute --reassignment-json-file {tmp_path}/saved.json")[-1] == started


def test_scenario_26_with_three_brokers() -> None:
    plan = read_plan(json.loads(PLAN), "--reassignment-json-file")
    assert plan_text(plan.replicas, plan.directories) == PLAN
    assert read_topics(json.loads(TOPICS), "--topics-to-move-json-file") == ["first"]
    three = PartitionDescription(0, 0, 0, (0, 1), (0, 1), ())
    topics = {"three": TopicDescription("three", None, False, (three,), None)}
    found = partition_progress({TopicPartition("three", 0): (0, 1)}, {}, topics)
    assert partition_lines(found) == [
        "Status of partition reassignment:",
        "Reassignment of partition three-0 is completed.",
    ]
