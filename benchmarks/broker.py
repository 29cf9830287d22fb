"""The whole broker under load: `python -m benchmarks.broker [--json FILE] [--plot FILE] [--rounds 15] [--only ...]`.

CPU time is the broker's own, rounds are interleaved, figures are medians with quartiles. Ends with 1 when a figure is
beyond what is allowed.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from benchmarks import librdkafka, raw, scale
from benchmarks.figures import Check
from benchmarks.plot import plot
from benchmarks.servers import allow_many_files

PARTS = ("produce", "fetch", "scale", "start", "librdkafka")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--plot", type=Path, help="also draw them here, as SVG")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", help=f"some of {','.join(PARTS)}", default=",".join(PARTS))
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        parser.error(f"--only knows {', '.join(PARTS)}, not {', '.join(unknown)}")
    allow_many_files()
    report = measure(parts, arguments.rounds)
    checks = checks_of(report)
    report["checks"] = [check.as_json() for check in checks]
    print()
    for check in checks:
        print(check)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    if arguments.plot:
        arguments.plot.write_text(plot(report))
    return 0 if all(check.is_met for check in checks) else 1


def measure(parts: list[str], rounds: int) -> dict[str, Any]:
    report: dict[str, Any] = {"machine": machine(), "rounds": rounds}
    operations = tuple(part for part in (raw.PRODUCE, raw.FETCH) if part in parts)
    if operations:
        print("CPU per request of each server, times that of the bare uvloop sink [quartiles] (requests in a burst)")
        report["raw"] = raw.measure(rounds, operations)
    if "scale" in parts:
        report["scale"] = scale.measure_throughput(rounds)
    if "start" in parts:
        report["start"] = scale.measure_start(rounds)
    if "librdkafka" in parts:
        report["librdkafka"] = librdkafka.measure(rounds)
    return report


def checks_of(report: dict[str, Any]) -> list[Check]:
    return raw.checks(report.get("raw", [])) + scale.checks(report.get("scale"), report.get("start"))


def machine() -> dict[str, Any]:
    """Enough to tell runs on different machines apart; a high load says that figures may be blurred."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load_at_start": round(os.getloadavg()[0], 2),
    }


if __name__ == "__main__":
    sys.exit(main())
