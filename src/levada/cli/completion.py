"""`levada completion`: prints what a shell needs to complete tools and flags."""

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from levada.cli.kit.parser import ToolParser
from levada.cli.tools import SCRIPTS, TOOLS

FILE_METAVARS: Final = ("FILE", "FILE,...", "DIR")


@dataclass(frozen=True, slots=True)
class Flag:
    name: str
    help: str
    choices: tuple[str, ...] = ()
    takes_file: bool = False
    takes_value: bool = False


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    subcommands: tuple[str, ...]
    flags: tuple[Flag, ...]
    """Of the tool and of all its subcommands."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "bash: add `source <(levada completion bash)` to ~/.bashrc\n"
        "zsh:  add `source <(levada completion zsh)` to ~/.zshrc\n"
        "fish: levada completion fish > ~/.config/fish/completions/levada.fish"
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: argparse.Namespace) -> int:
    commands = [_command(name) for name in TOOLS]
    if arguments.shell == "fish":
        print("\n".join(_fish(commands)))
        return 0
    if arguments.shell == "zsh":
        print("autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit")
    print("\n".join(_bash(commands)))
    return 0


def _command(name: str) -> Command:
    parser = ToolParser(prog=f"levada {name}")
    import_module(f"levada.cli.{name.replace('-', '_')}").add_arguments(parser)
    subparsers = list(_subparsers(parser))
    flags = {flag.name: flag for one in (parser, *subparsers) for flag in _flags(one)}
    return Command(name, TOOLS[name], tuple(_subcommands(parser)), tuple(flags.values()))


def _subcommands(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Words that stand without a flag: subcommands, or a choice of values."""
    for action in parser._actions:
        if not action.option_strings and action.choices is not None:
            yield from map(str, action.choices)


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _flags(parser: argparse.ArgumentParser) -> Iterator[Flag]:
    for action in parser._actions:
        for name in action.option_strings:
            if name.startswith("--") and action.help is not argparse.SUPPRESS:
                yield Flag(
                    name,
                    action.help or "",
                    tuple(map(str, action.choices or ())),
                    takes_file=action.metavar in FILE_METAVARS,
                    takes_value=action.nargs != 0,
                )


def _bash(commands: list[Command]) -> Iterator[str]:
    yield "_levada() {"
    yield '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" words=""'
    yield "    if (( COMP_CWORD == 1 )); then"
    yield f"        {_reply(TOOLS)}"
    yield f"        [[ $current == kafka-* ]] && {_reply(SCRIPTS)}"
    yield "        return"
    yield "    fi"
    yield '    case "${COMP_WORDS[1]}" in'
    for command in commands:
        names = "|".join([command.name, *(script for script, name in SCRIPTS.items() if name == command.name)])
        yield f"    {names})"
        yield '        case "$previous" in'
        for flag in command.flags:
            if flag.choices:
                yield f"        {flag.name}) {_reply(flag.choices)}; return ;;"
        files = "|".join(flag.name for flag in command.flags if flag.takes_file)
        if files:
            yield f'        {files}) COMPREPLY=($(compgen -f -- "$current")); return ;;'
        yield "        esac"
        yield f'        words="{" ".join([*command.subcommands, *(flag.name for flag in command.flags)])}" ;;'
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$current"))'
    yield "}"
    yield "complete -o default -F _levada levada"


def _reply(words: Iterable[str]) -> str:
    return f'COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$current"))'


def _fish(commands: list[Command]) -> Iterator[str]:
    yield "complete -c levada -f"
    for command in commands:
        yield f"complete -c levada -n __fish_use_subcommand -a {command.name} -d {_quoted(command.summary)}"
        here = f"-n '__fish_seen_subcommand_from {command.name}'"
        if command.subcommands:
            yield f"complete -c levada {here} -a {_quoted(' '.join(command.subcommands))}"
        for flag in command.flags:
            value = " -r" if flag.takes_value else ""
            value = f" -x -a {_quoted(' '.join(flag.choices))}" if flag.choices else value
            value = " -r -F" if flag.takes_file else value
            yield f"complete -c levada {here} -l {flag.name.removeprefix('--')}{value} -d {_quoted(flag.help)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'") + "'"
