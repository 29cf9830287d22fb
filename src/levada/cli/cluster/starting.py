"""Several brokers on this machine, and a ZooKeeper if wanted, each a process of its own; they are stopped together."""

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
DEFAULT_DIRECTORY: Final = "./levada-cluster"
STOP_SECONDS: Final = 60.0
"""For a broker to bring its logs to the disk."""


@dataclass(slots=True)
class ServerProcess:
    name: str
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
    servers: list[ServerProcess] = []
    is_ready = False

    def stop() -> None:
        stopping.set()
        for server in servers:
            if not is_ready and server.process.returncode is None:
                # It may be waiting for the others, and is waited for itself.
                server.process.terminate()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    watches: list[asyncio.Task[bool]] = []
    try:
        if arguments.zookeeper is not None:
            servers.append(await _start_zookeeper(arguments, directory))
            await _listens(servers[0], stopping)
        brokers = [await _start_broker(arguments, directory, index, servers) for index in range(arguments.brokers)]
        for broker in brokers:
            await _listens(broker, stopping)
        if not stopping.is_set():
            print("levada: cluster ready", flush=True)
        is_ready = True
        watches = [asyncio.create_task(_watch(server, stopping)) for server in servers]
        await stopping.wait()
    finally:
        # A server that is told to stop does not end by itself.
        stopping.set()
        # The first broker to be started is the controller, unless it has died since, and hears the others out.
        were_well = [await _stop(server) for server in reversed(servers)]
        were_well += [await watch for watch in watches]
    return 0 if all(were_well) else FAILED


async def _start_zookeeper(arguments: argparse.Namespace, directory: Path) -> ServerProcess:
    flags = ["zookeeper", "--data-dir", str(directory / "zookeeper"), "--port", str(arguments.zookeeper)]
    return await _start("zookeeper", directory / "zookeeper.log", flags)


async def _start_broker(
    arguments: argparse.Namespace, directory: Path, index: int, servers: list[ServerProcess]
) -> ServerProcess:
    """Also into `servers`, of which those that were started are stopped if a later one cannot be."""
    node_id = index + 1
    base_port = DEFAULT_PORT if arguments.base_port is None else arguments.base_port
    port = base_port + index if base_port else 0
    coordinator = arguments.coordinator or f"local:{directory / 'coordinator'}"
    if arguments.zookeeper is not None:
        coordinator = f"zookeeper://localhost:{arguments.zookeeper}/levada"
    flags = ["serve", "--node-id", str(node_id), "--listen", f"localhost:{port}", "--coordinator", coordinator]
    flags += ["--data-dir", str(directory / f"broker{node_id}")]
    flags += ["--dev"] if arguments.dev else []
    for setting in arguments.set or ():
        flags += ["--set", setting]
    server = await _start(f"broker {node_id}", directory / f"broker{node_id}.log", flags)
    servers.append(server)
    return server


async def _start(name: str, log_path: Path, flags: list[str]) -> ServerProcess:
    with log_path.open("ab") as log:
        # In a session of its own: Ctrl-C is for this process, which stops them one after the other.
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "levada", *flags,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        )  # fmt: skip
    return ServerProcess(name, log_path, process)


async def _listens(server: ServerProcess, stopping: asyncio.Event) -> None:
    """Return when it listens; Refused when it has ended before that, unless it was told to."""
    assert server.process.stdout is not None
    line = (await server.process.stdout.readline()).decode(errors="replace").strip()
    if LISTENING in line:
        print(line, flush=True)
        return
    await server.process.wait()
    if not stopping.is_set():
        raise Refused(f"{server.name} did not start: {server.last_words()}")


async def _watch(server: ServerProcess, stopping: asyncio.Event) -> bool:
    """Say when it ends; whether that was because it was told to."""
    await server.process.wait()
    if stopping.is_set():
        return True
    warn(f"{server.name} has ended: {server.last_words()}; the others go on")
    return False


async def _stop(server: ServerProcess) -> bool:
    """Whether it ended well."""
    process = server.process
    if process.returncode is None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
        print(f"levada: {server.name} stopped", flush=True)
    return process.returncode == 0
