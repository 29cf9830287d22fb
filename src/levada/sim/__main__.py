"""`python -m levada.sim`: run seeds, or one seed again with everything it did."""

import argparse
import json
import logging
import secrets
import sys
import traceback

from levada.sim.frame import run_scenario
from levada.sim.scenarios import SCENARIOS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m levada.sim", description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, default="single-node")
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
            outcome, lines = run_scenario(SCENARIOS[arguments.scenario], seed, recording=arguments.verbose)
        except BaseException:
            traceback.print_exc()
            again = f"python -m levada.sim --scenario {arguments.scenario} --seed {seed} --verbose"
            print(f"FAILED seed {seed}; again with: {again}", file=sys.stderr)
            return 1
        digests[seed] = outcome.digest
        if arguments.verbose:
            print("\n".join(lines))
        if not arguments.json:
            print(f"seed {seed}: {outcome}")
    if arguments.json:
        print(json.dumps(digests))
    return 0


if __name__ == "__main__":
    sys.exit(main())
