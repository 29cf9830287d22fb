"""Simulated runs: the same for the same seed, whatever goes wrong, and clear about what failed."""

import asyncio
import json
import os
import random
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from levada import aio
from levada.client.errors import KafkaError
from levada.model.config import ConfigError
from levada.testing import (
    NO_FAULTS,
    STORM,
    Cluster,
    Faults,
    NotInTime,
    Process,
    SimDeadlock,
    SimTimeout,
    Step,
    simulate,
    simulate_many,
)

ROOT = Path(__file__).parents[2]
EVERYTHING = Faults(crash=4, power_loss=1, kill=6, cut=6, reset=6, drop=4, delay=6, disk_errors=2)


class WrongShipment(Exception):
    """Of the app's own."""


async def copying(process: Process) -> None:
    """A process as users write it: clients by their own names, plain asyncio."""
    async with (
        aio.Consumer(
            process.bootstrap,
            group_id="copying",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=2_000,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
        aio.Producer(process.bootstrap) as producer,
    ):
        consumer.subscribe(["in"])
        while True:
            for record in await consumer.poll(1.0):
                await (await producer.send("out", record.value))
            try:
                await consumer.commit()
            except KafkaError:
                await asyncio.sleep(random.random())


async def app(cluster: Cluster) -> int:
    await cluster.create_topic("in", 2)
    await cluster.create_topic("out")
    cluster.start(copying, "copying")
    for number in range(15):
        await cluster.produce("in", [str(number)])
        await asyncio.sleep(cluster.random.random() * 2)
    await cluster.calm()
    # Long enough for the sessions of the dead to end, and for their work to be done.
    await asyncio.sleep(30)
    return len({record.value for record in await cluster.records("out")})


# What the app can do


def test_the_apps_result_and_its_virtual_time_are_in_the_report() -> None:
    async def sleeper(cluster: Cluster) -> str:
        before_ms = cluster.now_ms()
        await asyncio.sleep(500)
        assert cluster.now_ms() - before_ms == 500_000
        return "awake"

    report = simulate(sleeper, seed=3)
    assert (report.seed, report.result, report.faults, report.trace) == (3, "awake", {}, ())
    assert 500 <= report.virtual_seconds < 510
    assert str(report).startswith("seed 3: 500.")


def test_topics_records_and_transactions_are_those_of_a_real_broker() -> None:
    async def exchange(cluster: Cluster) -> tuple[list[bytes | None], list[bytes | None]]:
        await cluster.create_topic("orders", 2, cleanup_policy="compact")
        await cluster.produce("orders", [("anna", "first"), ("anna", "second")], partition=1)
        async with cluster.producer(transactional_id="till") as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await producer.send("orders", b"open", key=b"x", partition=1)
            await producer.flush()
            committed = await cluster.records("orders", isolation_level="read_committed")
            everything = await cluster.wait_for_records("orders", 3)
        return [record.value for record in committed], [record.value for record in everything]

    committed, everything = simulate(exchange).result
    assert committed == [b"first", b"second"]
    assert everything == [b"first", b"second", b"open"]


def test_the_broker_has_the_settings_it_was_given() -> None:
    async def partitions(cluster: Cluster) -> int:
        await cluster.produce("orders", ["first"])
        async with cluster.consumer() as consumer:
            return len(await consumer.partitions_for("orders"))

    assert simulate(partitions, settings={"num.partitions": 5}).result == 5
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        simulate(partitions, settings={"num.partitoins": 5})


def test_the_app_may_do_harm_itself() -> None:
    async def harm(cluster: Cluster) -> int:
        await cluster.create_topic("in")
        await cluster.create_topic("out")
        service = cluster.start(copying)
        await cluster.produce("in", ["before"])
        await cluster.wait_for_records("out")
        cluster.kill(service.name)
        cluster.crash_broker()
        assert not cluster.is_alive(service.name)
        await cluster.calm()
        cluster.cut(service.name)
        await cluster.produce("in", ["after"])
        with pytest.raises(NotInTime, match="out has 1 of 2 records"):
            await cluster.wait_for_records("out", 2, timeout=20)
        cluster.heal()
        await cluster.wait_for_records("out", 2)
        return service.starts

    assert simulate(harm).result == 2


def test_a_process_that_returns_is_not_started_again() -> None:
    async def once(process: Process) -> None:
        async with process.producer() as producer:
            await (await producer.send("done", process.name.encode()))

    async def run(cluster: Cluster) -> list[bytes | None]:
        service = cluster.start(once, "once")
        await cluster.wait_until(lambda: service.is_done)
        await cluster.calm()
        return [record.value for record in await cluster.records("done")]

    assert simulate(run).result == [b"once"]


def test_two_processes_of_one_name_are_refused() -> None:
    async def run(cluster: Cluster) -> None:
        cluster.start(copying, "twin")
        for name in ("twin", "broker", "app"):
            with pytest.raises(ValueError, match="already"):
                cluster.start(copying, name)

    simulate(run)


def test_the_functions_of_random_are_part_of_the_seed_and_of_no_other_run() -> None:
    async def draw(cluster: Cluster) -> tuple[float, float]:
        return random.random(), cluster.random.random()

    random.seed(1)
    expected = [random.random(), random.random()]
    random.seed(1)
    first, other = simulate(draw, seed=5).result, simulate(draw, seed=6).result
    assert first[0] != other[0]
    assert first[1] != other[1]
    drawn = [random.random()]
    assert simulate(draw, seed=5).result == first
    assert [*drawn, random.random()] == expected


def test_a_loop_inside_a_loop_is_refused() -> None:
    async def nested() -> None:
        simulate(app)

    with pytest.raises(RuntimeError, match="has a loop of its own"):
        asyncio.run(nested())


# Faults and replay


def test_every_kind_of_fault_comes_and_a_copy_loses_nothing_by_those_it_can_survive() -> None:
    faults = Faults(crash=4, kill=6, cut=6, reset=6, drop=4, delay=6, disk_errors=2)
    seen: set[str] = set()
    for report in simulate_many(app, range(6), faults=faults):
        assert report.result == 15, report
        seen |= set(report.faults)
    assert seen == {"crash", "kill", "cut", "reset", "drop", "delay", "disk_errors"}


def test_no_faults_are_no_faults() -> None:
    assert simulate(app, faults=NO_FAULTS).faults == {}


def test_the_same_seed_does_the_same_and_another_does_something_else() -> None:
    first, again, other = (simulate(app, seed=seed, faults=STORM) for seed in (1, 1, 2))
    assert first == again
    assert first.digest != other.digest


def test_a_run_is_the_same_in_a_process_with_another_hash_seed() -> None:
    code = (
        "import json, tests.testing.test_simulate as here\n"
        "from levada.testing import simulate\n"
        "print(json.dumps([simulate(here.app, seed=s, faults=here.EVERYTHING).digest for s in range(2)]))"
    )
    digests = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        ran = subprocess.run(
            [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
        )
        digests.append(json.loads(ran.stdout))
        assert ran.stderr == ""
    assert digests[0] == digests[1] == [simulate(app, seed=seed, faults=EVERYTHING).digest for seed in range(2)]


def test_a_recorded_run_tells_everything_and_changes_nothing() -> None:
    recorded = simulate(app, seed=4, recording=True)
    assert recorded.digest == simulate(app, seed=4).digest
    assert any("receive app:" in line for line in recorded.trace)


def test_steps_come_at_their_time_and_to_their_target() -> None:
    async def watch(cluster: Cluster) -> list[bool]:
        cluster.start(copying, "copying")
        alive = []
        for at in (4.9, 5.1, 19.9, 20.1):
            await asyncio.sleep(at - asyncio.get_running_loop().time())
            alive.append(cluster.is_alive("copying"))
        return alive

    faults = Faults(steps=(Step(5, "kill", "copying"), Step(20, "kill", "copying"), Step(2, "cut")), lasting=(1, 2))
    report = simulate(watch, faults=faults)
    assert report.result == [True, False, True, False]
    assert report.faults == {"cut": 1, "kill": 2}


def test_after_calm_nothing_goes_wrong_any_more() -> None:
    async def calm(cluster: Cluster) -> int:
        service = cluster.start(copying, "copying")
        await asyncio.sleep(60)
        await cluster.calm()
        starts = service.starts
        await asyncio.sleep(120)
        return service.starts - starts

    steps = (Step(100, "kill", "copying"),)
    report = simulate(calm, faults=Faults(kill=10, crash=10, cut=10, delay=10, drop=10, disk_errors=5, steps=steps))
    assert report.result == 0
    assert report.faults["kill"] > 0


def test_power_loss_takes_what_was_not_flushed_and_only_that() -> None:
    async def lose_power(cluster: Cluster) -> int:
        await cluster.produce("orders", [str(number) for number in range(50)])
        cluster.crash_broker(power_loss=True)
        await cluster.calm()
        return len(await cluster.records("orders"))

    kept = {simulate(lose_power, seed=seed).result for seed in range(5)}
    flushed = {simulate(lose_power, seed=seed, settings={"log.flush.interval.messages": 1}).result for seed in range(5)}
    assert min(kept) < 50
    assert flushed == {50}


def test_faults_are_written_as_one_would_write_them() -> None:
    assert repr(Faults(crash=2, steps=(Step(1, "cut"),))) == (
        "Faults(crash=2, steps=(Step(at=1, kind='cut', target=None),))"
    )
    with pytest.raises(ValueError, match="cut is a number of faults in a minute, not -1"):
        Faults(cut=-1)
    with pytest.raises(ValueError, match="'crush' is no kind of fault: crash, "):
        Step(1, "crush")  # type: ignore[arg-type]


# Failures


async def fail_late(cluster: Cluster) -> None:
    await asyncio.sleep(1.5)
    raise WrongShipment("two parcels")


def test_what_the_app_raises_keeps_its_traceback_and_tells_how_to_see_it_again() -> None:
    with pytest.raises(WrongShipment, match="two parcels") as raised:
        simulate(fail_late, seed=9, faults=Faults(reset=60), settings={"num.partitions": 2})
    notes = raised.value.__notes__
    assert notes[0] == "simulation seed 9, virtual time 1.500 s"
    assert notes[1].endswith(
        "the same run again: simulate(fail_late, seed=9, faults=Faults(reset=60), settings={'num.partitions': 2})"
    )
    assert "fail_late" in [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]


def test_what_a_process_raises_ends_the_run_at_once() -> None:
    async def wrong(process: Process) -> None:
        raise WrongShipment(process.name)

    async def wait(cluster: Cluster) -> None:
        cluster.start(wrong, "wrong")
        await asyncio.sleep(1_000)

    with pytest.raises(WrongShipment, match="wrong") as raised:
        simulate(wait)
    assert raised.value.__notes__[0] == "simulation seed 0, virtual time 0.000 s"


def test_a_task_that_fails_unseen_fails_the_run() -> None:
    async def forget(cluster: Cluster) -> None:
        task = asyncio.create_task(fail_late(cluster))
        await asyncio.sleep(2)
        assert task.done()

    with pytest.raises(Exception, match="two parcels"):
        simulate(forget)


def test_the_first_of_many_seeds_that_fails_is_named() -> None:
    async def fail_sometimes(cluster: Cluster) -> None:
        assert cluster.random.random() < 0.8

    with pytest.raises(AssertionError) as raised:
        simulate_many(fail_sometimes, range(100))
    seed = int(raised.value.__notes__[0].split()[2].rstrip(","))
    with pytest.raises(AssertionError):
        simulate(fail_sometimes, seed=seed)
    simulate_many(fail_sometimes, range(seed))


def test_an_app_that_waits_for_what_cannot_happen_is_found_out() -> None:
    async def wait_for_no_member(cluster: Cluster) -> None:
        await cluster.create_topic("orders")
        await asyncio.Event().wait()

    with pytest.raises(SimDeadlock, match=r"cannot happen any more:\n.*app#1 main") as raised:
        simulate(wait_for_no_member)
    assert "the same run again" in raised.value.__notes__[-1]


def test_an_app_that_goes_on_for_ever_is_ended() -> None:
    async def turn_in_circles(cluster: Cluster) -> None:
        while True:
            await asyncio.sleep(1)

    with pytest.raises(SimTimeout, match="not done after"):
        simulate(turn_in_circles, limit=60)


def test_code_that_leaves_the_simulation_is_told_so() -> None:
    async def use_a_thread(cluster: Cluster) -> None:
        await asyncio.to_thread(print)

    with pytest.raises(RuntimeError, match="run_in_executor leaks around the doors"):
        simulate(use_a_thread)
