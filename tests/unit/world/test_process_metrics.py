"""What a broker tells of its process and its loop."""

import asyncio
import gc
import mmap
import os
import time
from collections.abc import Mapping

import pytest

from levada.model.metrics import Registry, Value
from levada.world import process_metrics
from levada.world.process_metrics import IdleMeter, ProcessMetrics

HANDLERS = "kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent"
NETWORK = "kafka.network:type=SocketServer,name=NetworkProcessorAvgIdlePercent"
DELAY = "levada:type=EventLoop,name=DelayMs"
SYSTEM = "java.lang:type=OperatingSystem"
OLDEST = "java.lang:type=GarbageCollector,name=Python generation 2"
SECOND_MS = 1_000
SECOND_NS = 1_000_000_000


def shown(registry: Registry) -> Mapping[str, Mapping[str, Value]]:
    return {reading.name: reading.attributes for reading in registry.collect()}


def test_the_idle_share_is_between_none_and_all_of_the_time() -> None:
    meter = IdleMeter(0)
    meter.count += SECOND_NS // 4
    meter.tick(SECOND_MS)
    assert meter.share == 0.25
    assert meter.attributes()["Count"] == SECOND_NS // 4
    assert meter.attributes()["OneMinuteRate"] == meter.attributes()["MeanRate"] == 0.25
    meter.count += 2 * SECOND_NS
    meter.tick(2 * SECOND_MS)
    assert meter.share == 1.0


def test_a_loop_that_works_is_not_idle_and_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_metrics, "LOOK_SECONDS", 0.001)
    registry = Registry()

    def work() -> None:
        end_ns = time.thread_time_ns() + 100_000_000
        while time.thread_time_ns() < end_ns:
            pass

    async def main() -> None:
        metrics = ProcessMetrics(registry, time.monotonic_ns() // 1_000_000)
        registry.tick(time.monotonic_ns() // 1_000_000)
        metrics.start()
        before = int(shown(registry)[HANDLERS]["Count"])
        began_ns = time.perf_counter_ns()
        work()
        while not shown(registry)[DELAY]["Count"]:
            await asyncio.sleep(0.001)
        idle_ns = int(shown(registry)[HANDLERS]["Count"]) - before
        assert idle_ns <= time.perf_counter_ns() - began_ns - 100_000_000
        assert float(shown(registry)[DELAY]["Max"]) >= 90
        metrics.stop()

    asyncio.run(main())
    registry.tick(time.monotonic_ns() // 1_000_000 + SECOND_MS)
    assert 0 <= float(shown(registry)[NETWORK]["Value"]) <= 1


def test_collections_are_counted_while_it_runs() -> None:
    registry = Registry()

    async def main() -> None:
        metrics = ProcessMetrics(registry, 0)
        metrics.start()
        gc.collect()
        assert shown(registry)[OLDEST]["CollectionCount"] == 1
        metrics.stop()
        gc.collect()
        assert shown(registry)[OLDEST]["CollectionCount"] == 1

    callbacks = len(gc.callbacks)
    asyncio.run(main())
    assert len(gc.callbacks) == callbacks


def test_open_files_are_counted_beside_the_loop() -> None:
    registry = Registry()

    async def main() -> None:
        metrics = ProcessMetrics(registry, 0)
        metrics.start()
        while not shown(registry)[SYSTEM]["OpenFileDescriptorCount"]:
            await asyncio.sleep(0.01)
        metrics.stop()

    asyncio.run(main())
    assert int(shown(registry)[SYSTEM]["OpenFileDescriptorCount"]) >= 3


def test_what_the_process_has() -> None:
    registry = Registry()
    ProcessMetrics(registry, 0)
    registry.tick(SECOND_MS)
    before = shown(registry)[SYSTEM]
    # Pages of its own: a bytearray may lie where an earlier test had something.
    held = mmap.mmap(-1, 32 << 20)
    held.write(os.urandom(1 << 20) * 32)
    now = shown(registry)[SYSTEM]
    assert int(now["ResidentMemorySize"]) >= int(before["ResidentMemorySize"]) + len(held) // 2
    assert int(now["CommittedVirtualMemorySize"]) >= int(now["ResidentMemorySize"])
    assert int(now["MaxFileDescriptorCount"]) > 0
    assert 0 <= float(now["ProcessCpuLoad"]) <= 1
    assert int(now["ProcessCpuTime"]) > 0
