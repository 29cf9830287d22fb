"""What the process and its event loop are doing, under the names by which Kafka's dashboards know a JVM's figures."""

import asyncio
import gc
import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import ClassVar, Final

from levada.model.metrics import Histogram, Meter, Registry, Sample, Value

LOOK_SECONDS: Final = 0.1
"""How often the loop is asked how late it is."""
LOOKS_PER_COUNT: Final = 100
"""After so many, open files are counted."""
NANOSECONDS: Final = 1_000_000_000
NANOSECONDS_PER_MS: Final = 1_000_000
NO_TAGS: Final[dict[str, str]] = {}

_HANDLERS_IDLE: Final = "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent"
_NETWORK_IDLE: Final = "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent"
_PROCESSOR_IDLE: Final = "kafka.network:type=Processor,name=IdlePercent,networkProcessor=0"
_LOOP_DELAY: Final = "levada:type=EventLoop,name=DelayMs"


class IdleMeter(Meter):
    """Nanoseconds without work as its count, and the share of time that they are as its rates, as in Kafka."""

    __slots__ = ("share",)

    def __init__(self, now_ms: int) -> None:
        super().__init__(now_ms)
        self.share = 1.0
        """Of the time between the last two ticks."""

    def tick(self, now_ms: int) -> None:
        elapsed_ms = now_ms - self._ticked_ms
        if elapsed_ms > 0:
            self.share = min((self.count - self._seen) / (elapsed_ms * NANOSECONDS_PER_MS), 1.0)
        super().tick(now_ms)

    def attributes(self) -> dict[str, Value]:
        shown = super().attributes()
        rates = {name: min(float(value) / NANOSECONDS, 1.0) for name, value in shown.items() if name != "Count"}
        return {"Count": self.count, **rates}


class ProcessorLoad:
    """The share of all processors that this process has had between the last two ticks."""

    kind: ClassVar[str] = "attributes"

    def __init__(self) -> None:
        self._seen_ns = time.perf_counter_ns(), time.process_time_ns()
        self._load = 0.0
        self.open_files = 0
        """When they were last counted."""

    def tick(self, now_ms: int) -> None:
        now_ns, cpu_ns = time.perf_counter_ns(), time.process_time_ns()
        elapsed_ns = (now_ns - self._seen_ns[0]) * (os.cpu_count() or 1)
        if elapsed_ns > 0:
            self._load = min((cpu_ns - self._seen_ns[1]) / elapsed_ns, 1.0)
        self._seen_ns = now_ns, cpu_ns

    def attributes(self) -> dict[str, Value]:
        virtual, resident = memory_bytes()
        return {
            "ProcessCpuLoad": self._load,
            "ProcessCpuTime": time.process_time_ns(),
            "AvailableProcessors": os.cpu_count() or 1,
            "SystemLoadAverage": os.getloadavg()[0],
            "OpenFileDescriptorCount": self.open_files,
            "MaxFileDescriptorCount": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            "CommittedVirtualMemorySize": virtual,
            "ResidentMemorySize": resident,
        }


class Collections:
    """How often and how long Python's garbage collector has run, by generation."""

    def __init__(self) -> None:
        self._count = [0] * len(gc.get_stats())
        self._time_ns = [0] * len(self._count)
        self._began_ns = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """For `gc.callbacks`."""
        if phase == "start":
            self._began_ns = time.perf_counter_ns()
            return
        self._count[info["generation"]] += 1
        self._time_ns[info["generation"]] += time.perf_counter_ns() - self._began_ns

    def readings(self) -> Iterator[Sample]:
        for generation, (count, time_ns) in enumerate(zip(self._count, self._time_ns)):
            attributes: dict[str, Value] = {"CollectionCount": count, "CollectionTime": time_ns // NANOSECONDS_PER_MS}
            name = f"java.lang:type=GarbageCollector,name=Python generation {generation}"
            yield Sample(name, NO_TAGS, "attributes", attributes)


class ProcessMetrics:
    """Watches the loop that it is started on; it serves all requests, so both of Kafka's pools of threads are it."""

    def __init__(self, registry: Registry, now_ms: int) -> None:
        self._delays = Histogram(now_ms, divisor=1_000)
        self._idle = IdleMeter(now_ms)
        self._collections = Collections()
        self._process = ProcessorLoad()
        self._looks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._cpu_clock = 0
        self._seen_ns = (0, 0)
        registry.register(_HANDLERS_IDLE, self._idle)
        registry.register_gauge(_NETWORK_IDLE, lambda: self._idle.share)
        registry.register_gauge(_PROCESSOR_IDLE, lambda: self._idle.share)
        registry.register(_LOOP_DELAY, self._delays)
        registry.register("java.lang:type=OperatingSystem", self._process)
        registry.add_source(self._collections.readings)

    def start(self) -> None:
        self._cpu_clock = time.pthread_getcpuclockid(threading.get_ident())
        self._seen_ns = time.perf_counter_ns(), time.clock_gettime_ns(self._cpu_clock)
        gc.callbacks.append(self._collections)
        self._wait()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            gc.callbacks.remove(self._collections)

    def _wait(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def _look(self) -> None:
        now_ns, cpu_ns = time.perf_counter_ns(), time.clock_gettime_ns(self._cpu_clock)
        elapsed_ns = now_ns - self._seen_ns[0]
        self._idle.count += max(elapsed_ns - (cpu_ns - self._seen_ns[1]), 0)
        self._delays.record(max(elapsed_ns - int(LOOK_SECONDS * NANOSECONDS), 0) // 1_000)
        self._seen_ns = now_ns, cpu_ns
        if self._looks % LOOKS_PER_COUNT == 0:
            # There may be ten thousands, and to list them takes milliseconds.
            asyncio.get_running_loop().run_in_executor(None, self._count_files)
        self._looks += 1
        self._wait()

    def _count_files(self) -> None:
        with suppress(OSError):
            self._process.open_files = len(os.listdir("/dev/fd"))


def memory_bytes() -> tuple[int, int]:
    """What this process has reserved, and what of it is in memory; the most there ever was where there is no /proc."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            virtual, resident, *_ = map(int, file.read().split())
    except OSError:
        # There is none, or no file can be opened.
        highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return highest, highest
    page = resource.getpagesize()
    return virtual * page, resident * page
