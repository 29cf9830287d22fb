"""Tries an installed Levada as its user would: `python -I release_smoke.py DIRECTORY`, by the Python that has it.

It serves, creates a topic, writes, reads and stops, and prints what is compiled. It imports nothing of the source tree.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import levada
from levada import Consumer, Producer

RECORDS, PARTITIONS = 1_000, 3
SECONDS = 60


def main() -> None:
    command, directory = str(Path(sys.executable).parent / "levada"), Path(sys.argv[1])
    if not Path(levada.__file__).is_relative_to(sys.prefix):
        sys.exit(f"levada is imported from {levada.__file__}, not from the environment in {sys.prefix}")
    printed = run(command, "--version").strip()
    if printed != levada.__version__:
        sys.exit(f"levada --version says {printed}, the package {levada.__version__}")
    with served(command, directory) as address:
        run(
            *(command, "topics", "--bootstrap-server", address),
            *("--create", "--topic", "smoke", "--partitions", str(PARTITIONS)),
        )
        expected = produce(address)
        if consume(address, len(expected)) != expected:
            sys.exit("what was read is not what was written")
    for module in compiled():
        print(module)


@contextmanager
def served(command: str, directory: Path) -> Iterator[str]:
    """A broker's address; it must end well when it is asked to."""
    arguments = [command, "serve", "--dev", "--listen", "localhost:0", "--data-dir", str(directory / "data")]
    log = directory / "serve.log"
    with log.open("w") as errors:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        said = process.stdout.readline()
        if "listening on" not in said:
            sys.exit(f"levada serve did not start:\n{log.read_text()}")
        yield said.split()[-1]
        process.send_signal(signal.SIGTERM)
        if process.wait(SECONDS) != 0:
            sys.exit(f"levada serve ended with {process.returncode}:\n{log.read_text()}")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def produce(address: str) -> list[bytes]:
    values = [b"%06d" % number for number in range(RECORDS)]
    with Producer(address, compression_type="zstd") as producer:
        for value in values:
            producer.send("smoke", value, key=value)
    return values


def consume(address: str, count: int) -> list[bytes]:
    values: list[bytes] = []
    with Consumer(address, group_id="smoke", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["smoke"])
        for record in consumer:
            values.append(bytes(record.value or b""))
            if len(values) == count:
                break
    return sorted(values)


def compiled() -> list[str]:
    """The modules of the package that are machine code."""
    root = Path(levada.__file__).parent
    names = [".".join(path.relative_to(root.parent).with_suffix("").parts) for path in root.rglob("*.so")]
    modules = sorted(name.partition(".cpython-")[0].partition(".abi3")[0] for name in names)
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        sys.exit(f"{missing} cannot be imported here")
    return modules


def run(*command: str) -> str:
    """What it prints; the end of this script if it fails."""
    ran = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if ran.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


if __name__ == "__main__":
    main()
