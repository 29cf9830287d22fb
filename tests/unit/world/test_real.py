"""The real clock, chance, and the choice of the event loop."""

import asyncio
import subprocess
import sys
import time

from levada.world.disk import AsyncDisk
from levada.world.real import RealClock, RealEntropy, loop_name, real_world, run
from levada.world.real_async_disk import RealAsyncDisk

WITHOUT_UVLOOP = """
import sys
sys.modules["uvloop"] = None
from levada.world.real import loop_name, run
async def main():
    import asyncio
    return type(asyncio.get_running_loop()).__module__
print(loop_name(), run(main()))
"""

OPEN_FILES = """
from levada.world.real import allow_open_files, open_files_allowed
print(open_files_allowed(), allow_open_files(), open_files_allowed())
"""


def test_the_clock_tells_milliseconds() -> None:
    clock = RealClock()
    assert abs(clock.now_ms() - time.time() * 1000) < 1000
    first = clock.monotonic_ms()
    time.sleep(0.003)
    assert 2 <= clock.monotonic_ms() - first < 1000


def test_entropy_has_the_size_and_range_asked_for() -> None:
    entropy = RealEntropy()
    assert len(entropy.random_bytes(16)) == 16
    assert entropy.random_bytes(16) != entropy.random_bytes(16)
    assert {entropy.below(3) for _ in range(200)} == {0, 1, 2}


def test_a_process_gets_all_the_open_files_that_it_may_have() -> None:
    limited = ["sh", "-c", 'ulimit -Sn 100 && ulimit -Hn 200 && exec "$@"', "sh", sys.executable, "-c", OPEN_FILES]
    found = subprocess.run(limited, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["100", "200", "200"]


def test_run_takes_uvloop_when_there_is_one() -> None:
    async def main() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert run(main()) == loop_name() == "uvloop"


def test_run_falls_back_to_asyncio() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", WITHOUT_UVLOOP],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert answer.stdout.startswith("asyncio asyncio.")


def test_the_real_world_has_all_doors() -> None:
    async def main() -> None:
        world = real_world()
        async_disk: AsyncDisk = world.async_disk
        assert world.disk.exists("/")
        assert world.clock.now_ms() > 0
        await world.workers.close()
        assert isinstance(async_disk, RealAsyncDisk)
        async_disk.close()

    run(main())
