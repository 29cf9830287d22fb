"""What scenarios share: the node and its deaths, actors on hosts of their own, faults by the seed, and the outcome."""

from levada.sim.frame.scenario import Outcome as Outcome  # what a run did
from levada.sim.frame.scenario import run_scenario as run_scenario  # one seed of one scenario
