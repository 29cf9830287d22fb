"""Our tools and Apache's own print the same, against our broker and against Apache's."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.apache_broker import ApacheBroker
from tests.tools.running import run_apaches, run_ours
from tests.tools.scenario import Said, Scenario, play
from tests.tools.scenarios import SCENARIOS
from tests.tools.stages import our_stage, wiped_stage

pytestmark = pytest.mark.usefixtures("apache_jars")

each_scenario = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)


@pytest.fixture(scope="module")
def apaches_broker(tmp_path_factory: pytest.TempPathFactory, apache_jars: None) -> Iterator[ApacheBroker]:
    broker = ApacheBroker(tmp_path_factory.mktemp("apache") / "broker")
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()


def comparable(said: list[Said]) -> list[tuple[str, bool, str]]:
    """What both tools know; where a command fails, that it does, since the words are each one's own."""
    return [(one.step.command, one.failed, "" if one.failed else one.out) for one in said if not one.step.only_ours]


@each_scenario
def test_apaches_tool_says_the_same_against_our_broker(scenario: Scenario, tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    with our_stage(tmp_path / "ours") as stage:
        ours = play(scenario, stage, run_ours, is_ours=True)
    with our_stage(tmp_path / "theirs") as stage:
        theirs = play(scenario, stage, run_apaches, is_ours=False)
    assert comparable(ours) == comparable(theirs)


@each_scenario
def test_our_tool_says_the_same_as_apaches_against_apaches_broker(
    scenario: Scenario, apaches_broker: ApacheBroker, tmp_path: Path
) -> None:
    with wiped_stage(apaches_broker.bootstrap, tmp_path) as stage:
        ours = play(scenario, stage, run_ours, is_ours=True)
    with wiped_stage(apaches_broker.bootstrap, tmp_path) as stage:
        theirs = play(scenario, stage, run_apaches, is_ours=False)
    assert comparable(ours) == comparable(theirs)
