"""The parser of a tool's flags: Kafka's flags by their names, and one line for what is wrong with them."""

import argparse
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import levada
from levada.cli.kit.refusals import WRONG_USAGE, warn
from levada.model.near_names import did_you_mean

GONE: Final = {
    "--zookeeper": "--zookeeper is gone: give a broker's address with --bootstrap-server HOST:PORT",
    "--broker-list": "--broker-list is gone: give a broker's address with --bootstrap-server HOST:PORT",
    "--new-consumer": "--new-consumer is gone: there is only that one",
    "--bootstrap-controller": "--bootstrap-controller has nothing to reach here: every broker passes requests on to the"
    " controller, so give --bootstrap-server HOST:PORT",
}
"""Flags of older days, or of other servers, and what to use now."""


class ToolParser(argparse.ArgumentParser):
    """Ends with one line and exit code 2 where argparse prints the whole usage."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*arguments, **options)
        self.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version and exit")

    def read(self, given: Sequence[str]) -> argparse.Namespace:
        """Parse; a flag that is not there is named before argparse misses another one on its account."""
        for word in given:
            flag = word.partition("=")[0]
            if flag == "--":
                break
            if flag in GONE and flag not in self._option_string_actions:
                self._refuse(GONE[flag])
            is_known = any(known.startswith(flag) for known in self._option_string_actions)
            if flag.startswith("--") and not is_known and self._subparsers is None:
                self.error(f"there is no flag {flag}{did_you_mean(flag, self._option_string_actions)}")
        return self.parse_args(given)

    def error(self, message: str) -> NoReturn:
        self._refuse(f"{message} (see {self.prog} --help)")

    def _refuse(self, text: str) -> NoReturn:
        warn(text)
        self.exit(WRONG_USAGE)


class _PrintVersion(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(levada.__version__)
        parser.exit()


def key_value(text: str) -> tuple[str, str]:
    """For flags of the form KEY=VALUE; the value may be missing or hold more equals signs."""
    key, _, value = text.partition("=")
    if not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def natural(text: str) -> int:
    """A number from 0 on."""
    if (value := number(text)) < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is below 0")
    return value


def positive(text: str) -> int:
    """A number from 1 on."""
    if (value := number(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is below 1")
    return value
