"""The `penstock` command: finds the tool and hands over its arguments."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

TOOLS = {
    "serve": "start one broker",
    "dump-log": "print the files of a log directory",
    "metrics": "print a broker's metrics at an interval",
    "pipeline": "check and run pipelines on Spark",
}
"""Each tool is a module of this package with `add_arguments(parser)` and `run(arguments) -> exit code`."""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="penstock", description="Apache Kafka's protocol and log, in Python.")
    tools = parser.add_subparsers(dest="tool", metavar="TOOL", required=True)
    for name, summary in TOOLS.items():
        tool = tools.add_parser(name, help=summary, description=summary)
        # Only the tool that is called is imported: the others' imports would be paid for nothing.
        if name in given[:1]:
            module = import_module(f"penstock.cli.{name.replace('-', '_')}")
            module.add_arguments(tool)
            tool.set_defaults(run=module.run)
    parsed = parser.parse_args(given)
    code: int = parsed.run(parsed)
    return code


if __name__ == "__main__":
    sys.exit(main())
