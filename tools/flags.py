"""Writes docs/tools-flags.md from the parsers of the tools: `python -m tools.flags [--check]`."""

import argparse
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from levada.cli.kit.parser import ToolParser
from levada.cli.tools import OTHER_NAMES, OURS, SECTIONS

PAGE = Path(__file__).parents[1] / "docs" / "tools-flags.md"

HEAD = """\
# Flags of every tool

Generated (`make docs`) from the parsers of the tools; a test keeps it current. [The tools](tools.md) says what they are
for. Every tool has `--help` and `--version`; a flag may be cut short where that is not ambiguous.
"""


def page() -> str:
    return "".join((HEAD, *(_tool(name, summary) for tools in SECTIONS.values() for name, summary in tools.items())))


def _tool(name: str, summary: str) -> str:
    parser = ToolParser(prog=f"levada {name}")
    import_module(f"levada.cli.{name.replace('-', '_')}").add_arguments(parser)
    scripts = [f"`kafka-{other}.sh`" for other, tool in OTHER_NAMES.items() if tool == name]
    scripts += [] if name in OURS else [f"`kafka-{name}.sh`"]
    also = f" ({', '.join(scripts)})" if scripts else ""
    return f"\n## {name}\n\n{summary[0].upper()}{summary[1:]}{also}.\n" + "".join(_tables(parser))


def _tables(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [row for action in parser._actions for row in _row(action)]
    if rows:
        yield "\n| flag | meaning |\n| --- | --- |\n" + "".join(rows)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, subparser in action.choices.items():
                yield f"\n### {parser.prog.removeprefix('levada ')} {name}\n"
                yield from _tables(subparser)


def _row(action: argparse.Action) -> Iterator[str]:
    is_plain = isinstance(action, argparse._HelpAction | argparse._SubParsersAction) or action.dest == "version"
    if is_plain or action.help is argparse.SUPPRESS:
        return
    names = ", ".join(f"`{name}`" for name in action.option_strings) or f"`{action.metavar or action.dest}`"
    value = "" if action.nargs == 0 or not action.option_strings else f" `{_value(action)}`"
    text = (action.help or "").replace("%%", "%").replace("|", "\\|")
    yield f"| {names}{value} | {text} |\n"


def _value(action: argparse.Action) -> str:
    if action.metavar is not None:
        return action.metavar if isinstance(action.metavar, str) else " ".join(action.metavar)
    return ",".join(map(str, action.choices)) if action.choices else action.dest.upper()


def main() -> int:
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.read_text() == page() else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
