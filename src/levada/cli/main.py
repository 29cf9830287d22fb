"""The `levada` command: finds the tool and hands over its arguments."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from levada.cli.kafka_scripts import as_tool
from levada.cli.kit.parser import ToolParser
from levada.cli.kit.refusals import WRONG_USAGE, guarded, warn
from levada.cli.tools import SECTIONS, TOOLS, canonical_name
from levada.model.near_names import did_you_mean


def main(arguments: Sequence[str] | None = None) -> int:
    given = as_tool(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0].startswith("-"):
        return _without_tool(given)
    name = canonical_name(given[0])
    if name not in TOOLS:
        return _refuse_name(given[0], name)
    # Only the tool that is called is imported: the others' imports would be paid for nothing.
    module = import_module(f"levada.cli.{name.replace('-', '_')}")
    parser = ToolParser(prog=f"levada {name}", description=TOOLS[name])
    module.add_arguments(parser)
    parsed = parser.read(given[1:])
    parsed.given = given
    return guarded(lambda: module.run(_with_brokers(parsed)))


def _with_brokers(parsed: argparse.Namespace) -> argparse.Namespace:
    """Old scripts name the ZooKeeper in which brokers are found."""
    if getattr(parsed, "zookeeper_address", None) is not None:
        from levada.cli.kit.older_zookeeper import brokers_in

        parsed.bootstrap_server = brokers_in(parsed.zookeeper_address)
    return parsed


def _without_tool(given: list[str]) -> int:
    parser = ToolParser(
        prog="levada",
        usage="levada TOOL [FLAGS]",
        description="Apache Kafka's protocol and log, in Python.",
        epilog=_listing(),
    )
    parser.read(given)
    warn("which tool? (see levada --help)")
    return WRONG_USAGE


def _refuse_name(given: str, name: str) -> int:
    warn(f"there is no tool {given!r}{did_you_mean(name, TOOLS)} (see levada --help)")
    return WRONG_USAGE


def _listing() -> str:
    width = max(map(len, TOOLS))
    lines = []
    for section, tools in SECTIONS.items():
        lines += [f"{section}:", *(f"  {name:{width}}  {summary}" for name, summary in tools.items()), ""]
    return "\n".join([*lines, "`levada TOOL --help` says what a tool takes; kafka-TOOL.sh is the same as TOOL."])


if __name__ == "__main__":
    sys.exit(main())
