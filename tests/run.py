"""Runs every folder of tests within its budget of minutes; `python -m tests.run [FOLDER ...]`."""

import subprocess
import sys
import time
from pathlib import Path

BUDGET_MINUTES = {
    "tidy": 1,
    "unit": 3,
    "oracle": 1,
    "scenarios": 1,
    "property": 6,
    "simulation": 5,
    "integration": 5,
    "chaos": 5,
}
"""Bounds, not estimates: on two idle cores the whole takes about half of the 20 minutes it may."""

OTHER_FOLDERS = ("data", "fuzz", "interop")
"""Not part of `make test`: `make interop` needs npm, Debian's packages and Maven; `make fuzz` has no end."""

ROOT = Path(__file__).parent


def main() -> int:
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("__")}
    without_budget = sorted(folders - {*BUDGET_MINUTES, *OTHER_FOLDERS})
    if without_budget:
        print(f"tests/{without_budget[0]} has no budget: give it one in tests/run.py")
        return 1
    failed = [folder for folder in sys.argv[1:] or BUDGET_MINUTES if not run(folder)]
    if failed:
        print(f"FAILED: {', '.join(failed)}")
        return 1
    return 0


def run(folder: str) -> bool:
    budget = BUDGET_MINUTES[folder]
    print(f"== {folder} (at most {budget} min)", flush=True)
    start = time.monotonic()
    try:
        code = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", str(ROOT / folder)], timeout=budget * 60, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        print(f"tests/{folder} did not finish within its budget of {budget} minutes")
        return False
    print(f"== {folder} took {time.monotonic() - start:.0f} s", flush=True)
    return code == 0


if __name__ == "__main__":
    sys.exit(main())
