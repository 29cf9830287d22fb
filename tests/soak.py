"""Runs what takes hours, piece by piece: `make soak` goes on where it was ended, until every piece has been run.

A round is kept in `.soak/round.json`: for each piece whether it passed, how long it took and at which commit. `NEW=1`
begins another round, `MINUTES=60` starts no piece after so long, `ONLY=chaos` takes pieces with that in their names. A
piece that failed is run again by the next call; its output is in `.soak/`.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
KEPT = ROOT / ".soak"
ROUND = KEPT / "round.json"
WORKERS = 2
SEEDS_AT_ONCE = 100

SEEDS = {
    "single-node": 2_000,
    "metadata-storm": 300,
    "groups": 1_000,
    "transactions": 1_000,
    "clients": 1_000,
    "members": 500,
}
"""Of each scenario of the simulator."""

FILES = (
    "tests/chaos",
    "tests/spark",
    "tests/integration/test_producer_faults.py",
    "tests/property/test_compacted_log_model.py",
    "tests/property/test_local_door.py",
    "tests/property/test_log_damage.py",
    "tests/property/test_log_model.py",
    "tests/property/test_transactions.py",
    "tests/simulation/test_cleaning_kills.py",
    "tests/simulation/test_moving_replicas.py",
)
"""Each test file is a piece; they do more when LEVADA_SOAK is 1."""


@dataclass(frozen=True, slots=True)
class Piece:
    name: str
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    passed: bool
    seconds: int
    commit: str


def pieces() -> list[Piece]:
    found = []
    for scenario, count in SEEDS.items():
        for first in range(0, count, SEEDS_AT_ONCE):
            seeds = ("--first", str(first), "--count", str(min(SEEDS_AT_ONCE, count - first)))
            found.append(
                Piece(f"sim/{scenario}/{first}", (sys.executable, "-m", "levada.sim", "--scenario", scenario, *seeds))
            )
    for name in FILES:
        path = ROOT / name
        for file in sorted(path.glob("test_*.py")) if path.is_dir() else [path]:
            test = file.relative_to(ROOT)
            found.append(Piece(str(test), (sys.executable, "-m", "pytest", "-q", str(test))))
    return found


class Round:
    """What has been run; written down after every piece."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        known = json.loads(path.read_text()) if path.exists() else {}
        self.outcomes = {name: Outcome(**outcome) for name, outcome in known.items()}

    def note(self, piece: Piece, outcome: Outcome) -> None:
        with self._lock:
            self.outcomes[piece.name] = outcome
            text = json.dumps({name: asdict(one) for name, one in sorted(self.outcomes.items())}, indent=1)
            partial = self._path.with_suffix(".tmp")
            partial.write_text(text)
            partial.replace(self._path)
            word = "passed" if outcome.passed else "FAILED"
            print(f"{word} {piece.name} in {outcome.seconds} s", flush=True)

    def has_passed(self, piece: Piece) -> bool:
        return piece.name in self.outcomes and self.outcomes[piece.name].passed


def run(piece: Piece, commit: str) -> Outcome:
    start = time.monotonic()
    log = KEPT / f"{piece.name.replace('/', '-')}.log"
    with log.open("w") as output:
        code = subprocess.run(
            piece.command,
            cwd=ROOT,
            env={**os.environ, "LEVADA_SOAK": "1"},
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if code == 0:
        log.unlink()
    return Outcome(code == 0, round(time.monotonic() - start), commit)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--new", action="store_true")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    KEPT.mkdir(exist_ok=True)
    if options.new:
        ROUND.unlink(missing_ok=True)
    kept = Round(ROUND)
    wanted = [piece for piece in pieces() if options.only in piece.name]
    left = [piece for piece in wanted if not kept.has_passed(piece)]
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    end = time.monotonic() + 60 * options.minutes

    def take(piece: Piece) -> None:
        if time.monotonic() < end:
            kept.note(piece, run(piece, commit.stdout.strip()))

    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(take, left))
    failed = [piece.name for piece in wanted if piece.name in kept.outcomes and not kept.has_passed(piece)]
    not_run = [piece.name for piece in wanted if piece.name not in kept.outcomes]
    print(f"{len(wanted) - len(failed) - len(not_run)} passed, {len(failed)} failed, {len(not_run)} skipped")
    for name in failed:
        print(f"FAILED {name}: see .soak/{name.replace('/', '-')}.log")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
