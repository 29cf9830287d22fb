"""`python -m penstock.sim`: run seeds, or one seed again with everything it did."""

import argparse
import json
import logging
import secrets
import sys
import traceback

from penstock.sim.single_node import run_single_node


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m penstock.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one")
    parser.add_argument("--first", type=int, help="run --count seeds from this one on (default: at random)")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--json", action="store_true", help="print the digests as one JSON object")
    parser.add_argument("--verbose", action="store_true", help="print every message and disk operation")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO if arguments.verbose else logging.CRITICAL)
    if arguments.seed is not None:
        seeds = range(arguments.seed, arguments.seed + 1)
    else:
        first = secrets.randbelow(2**32) if arguments.first is None else arguments.first
        seeds = range(first, first + arguments.count)
    digests: dict[int, str] = {}
    for seed in seeds:
        try:
            outcome, lines = run_single_node(seed, recording=arguments.verbose)
        except BaseException:
            traceback.print_exc()
            print(f"FAILED seed {seed}; again with: python -m penstock.sim --seed {seed} --verbose", file=sys.stderr)
            return 1
        digests[seed] = outcome.digest
        if arguments.verbose:
            print("\n".join(lines))
        if not arguments.json:
            print(f"seed {seed}: {outcome.records} records, {outcome.crashes} crashes, trace {outcome.digest}")
    if arguments.json:
        print(json.dumps(digests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
