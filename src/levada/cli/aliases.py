"""`levada aliases`: writes Kafka's scripts into a directory, so that what calls them runs unchanged."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Final

from levada.cli.kafka_scripts import ALIASES, EXTRA_SCRIPTS
from levada.cli.kit.refusals import Refused
from levada.cli.kit.system_errors import reason
from levada.cli.tools import SCRIPTS

MARK: Final = "# Written by `levada aliases`."
SCRIPT: Final = """#!/bin/sh
{mark}
{aliases}="$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)"
export {aliases}
exec {python} -m levada {name} "$@"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "Put the directory on the PATH: export PATH=DIR:$PATH"
    parser.add_argument("directory", metavar="DIR", type=Path, help="where to; it is made if it is not there")


def run(arguments: argparse.Namespace) -> int:
    directory: Path = arguments.directory
    names = sorted({*SCRIPTS, *EXTRA_SCRIPTS})
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in names:
            _refuse_strangers(directory / name)
        for name in names:
            path = directory / name
            path.write_text(SCRIPT.format(mark=MARK, aliases=ALIASES, python=shlex.quote(sys.executable), name=name))
            path.chmod(0o755)
    except OSError as error:
        raise Refused(f"cannot write scripts to {directory}: {reason(error)}; choose another directory") from None
    print(f"levada: wrote {len(names)} scripts to {directory}; put it on the PATH")
    return 0


def _refuse_strangers(path: Path) -> None:
    """Scripts of Kafka's own are not overwritten."""
    if path.exists() and MARK not in path.read_text(errors="replace"):
        raise Refused(f"{path} is there already and was not written by levada: choose another directory")
