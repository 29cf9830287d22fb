"""What must hold: histories of what clients were told, and comparisons of them with what a broker serves."""

from levada.sim.checkers.check_failed import CheckFailed as CheckFailed  # a promise was broken
from levada.sim.checkers.partition_history import PartitionHistory as PartitionHistory  # what one log must contain
