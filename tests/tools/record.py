"""Writes the golden files: `python -m tests.tools.record [TOOL[/NAME] ...]`.

What Apache's tool printed where it has the command and succeeds; our own words where it has not, or must fail.
"""

import sys
import tempfile
from pathlib import Path

from tests.tools.running import run_apaches, run_ours
from tests.tools.scenario import Said, Scenario, play
from tests.tools.stages import our_stage

FOLDER = Path(__file__).parents[1] / "data" / "tools"


def golden_path(scenario: Scenario) -> Path:
    return FOLDER / scenario.tool / f"{scenario.name}.txt"


def record(scenario: Scenario) -> bool:
    """Whether both tools said the same."""
    with tempfile.TemporaryDirectory() as directory, our_stage(Path(directory)) as stage:
        ours = play(scenario, stage, run_ours, is_ours=True)
    with tempfile.TemporaryDirectory() as directory, our_stage(Path(directory)) as stage:
        theirs = iter(play(scenario, stage, run_apaches, is_ours=False))
    texts, differing = [], []
    for said in ours:
        other = said if said.step.only_ours else next(theirs)
        is_ours = said.step.only_ours or said.step.fails
        texts.append((said if is_ours else other).text())
        if not is_ours and said.out != other.out:
            differing.append((said, other))
    path = golden_path(scenario)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(texts))
    for said, other in differing:
        _show(said, other)
    return not differing


def _show(ours: Said, theirs: Said) -> None:
    print(f"DIFFERS $ {ours.step.command}\n--- ours\n{ours.out}--- Apache's\n{theirs.out}")


def main() -> int:
    from tests.tools.scenarios import SCENARIOS

    wanted = [one for one in SCENARIOS if not sys.argv[1:] or any(one.id.startswith(name) for name in sys.argv[1:])]
    same = True
    for scenario in wanted:
        print(scenario.id, flush=True)
        same &= record(scenario)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
