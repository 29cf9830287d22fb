"""The simulator: real nodes and clients on virtual time, over a network and disks that fail by a seed."""

from penstock.sim.incarnation import HostDied as HostDied  # what the doors of a crashed process raise
from penstock.sim.loop import RunFailed as RunFailed  # base of deadlock, livelock, timeout, unhandled
from penstock.sim.loop import SimDeadlock as SimDeadlock  # nothing scheduled, and still waiting
from penstock.sim.loop import SimLivelock as SimLivelock  # callbacks without end at one instant
from penstock.sim.loop import SimTimeout as SimTimeout  # virtual time over
from penstock.sim.loop import SimUnhandled as SimUnhandled  # a callback or task failed unseen
from penstock.sim.world import HostCrashed as HostCrashed  # what one gets who waits for a crashed process
from penstock.sim.world import Simulation as Simulation  # one run from one seed
