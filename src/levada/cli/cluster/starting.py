"""Several brokers on this machine, each a process of its own; they are stopped together."""

import argparse
import asyncio
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from levada.cli.kit.processes import LISTENING
from levada.cli.kit.refusals import FAILED, Refused, warn
from levada.world.real import run as run_loop

DEFAULT_PORT: Final = 9092
DEFAULT_DIRECTORY: Final = "./levada-data"
STOP_SECONDS: Final = 60.0
"""For a broker to bring its logs to the disk."""


@dataclass(slots=True)
class BrokerProcess:
    node_id: int
    log_path: Path
    process: asyncio.subprocess.Process

    def last_words(self) -> str:
        """Why it ended, as it said itself."""
        lines = self.log_path.read_text(errors="replace").splitlines()
        said = [line.removeprefix("levada: ") for line in lines if line.startswith("levada: ")]
        return said[-1] if said else f"exit code {self.process.returncode}; its log is {self.log_path}"


def run_brokers(arguments: argparse.Namespace) -> int:
    directory = Path(arguments.data_dir or DEFAULT_DIRECTORY)
    directory.mkdir(parents=True, exist_ok=True)
    return run_loop(_serve(arguments, directory))


async def _serve(arguments: argparse.Namespace, directory: Path) -> int:
    stopping = asyncio.Event()
    brokers: list[BrokerProcess] = []
    is_ready = False

    def stop() -> None:
        stopping.set()
        for broker in brokers:
            if not is_ready and broker.process.returncode is None:
                # It may be waiting for the others, and is waited for itself.
                broker.process.terminate()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    watches: list[asyncio.Task[bool]] = []
    try:
        for index in range(arguments.brokers):
            brokers.append(await _start(arguments, directory, index))  # noqa: PERF401 - those that came are stopped
        for broker in brokers:
            await _listens(broker, stopping)
        if not stopping.is_set():
            print("levada: cluster ready", flush=True)
        is_ready = True
        watches = [asyncio.create_task(_watch(broker, stopping)) for broker in brokers]
        await stopping.wait()
    finally:
        # A broker that is told to stop does not end by itself.
        stopping.set()
        # The first one to be started is the controller, unless it has died since, and hears the others out.
        were_well = [await _stop(broker) for broker in reversed(brokers)]
        were_well += [await watch for watch in watches]
    return 0 if all(were_well) else FAILED


async def _start(arguments: argparse.Namespace, directory: Path, index: int) -> BrokerProcess:
    node_id = index + 1
    base_port = DEFAULT_PORT if arguments.base_port is None else arguments.base_port
    port = base_port + index if base_port else 0
    log_path = directory / f"broker-{node_id}.log"
    command = [sys.executable, "-m", "levada", "serve", "--node-id", str(node_id), "--listen", f"localhost:{port}"]
    command += ["--data-dir", str(directory / f"broker-{node_id}")]
    command += ["--coordinator", arguments.coordinator or f"local:{directory / 'coordinator'}"]
    command += ["--dev"] if arguments.dev else []
    for setting in arguments.set or ():
        command += ["--set", setting]
    with log_path.open("ab") as log:
        # In a session of its own: Ctrl-C is for this process, which stops them one after the other.
        process = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
    return BrokerProcess(node_id, log_path, process)


async def _listens(broker: BrokerProcess, stopping: asyncio.Event) -> None:
    """Return when it listens; Refused when it has ended before that, unless it was told to."""
    assert broker.process.stdout is not None
    line = (await broker.process.stdout.readline()).decode(errors="replace").strip()
    if LISTENING in line:
        print(line, flush=True)
        return
    await broker.process.wait()
    if not stopping.is_set():
        raise Refused(f"broker {broker.node_id} did not start: {broker.last_words()}")


async def _watch(broker: BrokerProcess, stopping: asyncio.Event) -> bool:
    """Say when it ends; whether that was because it was told to."""
    await broker.process.wait()
    if stopping.is_set():
        return True
    warn(f"broker {broker.node_id} has ended: {broker.last_words()}; the others go on")
    return False


async def _stop(broker: BrokerProcess) -> bool:
    """Whether it ended well."""
    process = broker.process
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        print(f"levada: broker {broker.node_id} stopped", flush=True)
    return process.returncode == 0
