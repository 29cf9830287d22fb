"""All scenarios, by module: one for each tool."""

from importlib import import_module
from pathlib import Path

from tests.tools.scenario import Scenario

SCENARIOS: list[Scenario] = [
    scenario
    for path in sorted(Path(__file__).parent.glob("[a-z]*.py"))
    for scenario in import_module(f"tests.tools.scenarios.{path.stem}").SCENARIOS
]
