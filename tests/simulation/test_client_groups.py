"""Our consumers in groups through cut links, dead processes and a broker that crashes, the same in every run."""

import os
import subprocess
import sys

from tests.clients.group_storm import PLANS, run_storm

SEEDS = range(len(PLANS))
REPEATED = 2


def test_groups_of_our_consumers_survive_a_storm_and_leave_the_same_trace_in_another_process() -> None:
    digests = [f"{seed} {run_storm(seed)}" for seed in SEEDS]
    command = [sys.executable, "-m", "tests.clients.group_storm", str(SEEDS.start), str(REPEATED)]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    again = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=100)
    assert again.stdout.splitlines() == digests[:REPEATED], again.stderr
