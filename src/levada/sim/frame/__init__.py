"""What scenarios share: nodes and their deaths, actors on hosts of their own, faults by the seed, and the outcome."""

from levada.sim.frame.run import Outcome as Outcome  # what a run did
from levada.sim.frame.run import run_scenario as run_scenario  # one seed of one scenario
