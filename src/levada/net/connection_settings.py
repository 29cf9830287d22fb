"""What all connections of a server have in common."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from levada.model.buffers import LentBuffers, SpareBuffer
from levada.net.request_memory import RequestMemory
from levada.net.unsent_memory import UnsentMemory
from levada.world.disk import AsyncDisk


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    scratch: bytearray
    """Shared by all connections of a loop."""
    max_frame_size: int
    async_disk: AsyncDisk
    poison_frames: bool = False
    """Overwrite each frame after its dispatch, so that a view kept too long shows itself."""
    memory: RequestMemory = field(default_factory=RequestMemory)
    spare: SpareBuffer = field(default_factory=SpareBuffer)
    """For large frames that are received."""
    sent: LentBuffers = field(default_factory=LentBuffers)
    """For what is read from files to be sent."""
    perf_ns: Callable[[], int] = time.perf_counter_ns
    unsent: UnsentMemory = field(default_factory=UnsentMemory)
    listener: str = "PLAINTEXT"
    """Its name; the other fields are the same for all listeners of a server."""
    serves_brokers: bool = True
    """Whether brokers may ask here what clients may not."""
