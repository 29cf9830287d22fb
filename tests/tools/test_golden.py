"""What our tools print against our broker, beside texts that Apache's tools printed against it."""

from pathlib import Path

import pytest

from tests.tools.record import golden_path
from tests.tools.running import APACHES, run_ours
from tests.tools.scenario import Scenario, play
from tests.tools.scenarios import SCENARIOS
from tests.tools.stages import our_stage


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_a_tool_prints_what_is_on_file(scenario: Scenario, tmp_path: Path) -> None:
    with our_stage(tmp_path) as stage:
        said = play(scenario, stage, run_ours, is_ours=True)
    assert "".join(one.text() for one in said) == golden_path(scenario).read_text()


def test_every_tool_that_apache_has_is_compared() -> None:
    assert {one.tool for one in SCENARIOS} == set(APACHES)


def test_every_file_belongs_to_a_scenario() -> None:
    folder = golden_path(SCENARIOS[0]).parents[1]
    assert {path for path in folder.glob("*/*") if path.is_file()} == {golden_path(one) for one in SCENARIOS}
