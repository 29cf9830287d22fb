"""The simulator: real nodes and clients on virtual time, over a network and disks that fail by a seed."""

from levada.sim.world.incarnation import HostDied as HostDied  # what the doors of a crashed process raise
from levada.sim.world.loop import RunFailed as RunFailed  # base of deadlock, livelock, timeout, unhandled
from levada.sim.world.loop import SimDeadlock as SimDeadlock  # nothing scheduled, and still waiting
from levada.sim.world.loop import SimLivelock as SimLivelock  # callbacks without end at one instant
from levada.sim.world.loop import SimTimeout as SimTimeout  # virtual time over
from levada.sim.world.loop import SimUnhandled as SimUnhandled  # a callback or task failed unseen
from levada.sim.world.simulation import HostCrashed as HostCrashed  # what one gets who waits for a crashed process
from levada.sim.world.simulation import Simulation as Simulation  # one run from one seed
