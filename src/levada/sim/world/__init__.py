"""The simulated outside: virtual time, machines with disks, a network between them, and chance from one seed."""

from levada.sim.world.simulation import DATA_DIRECTORY as DATA_DIRECTORY  # where a machine's node keeps its logs
from levada.sim.world.simulation import HostCrashed as HostCrashed  # what one gets who waits for a crashed process
from levada.sim.world.simulation import Simulation as Simulation  # one run from one seed
