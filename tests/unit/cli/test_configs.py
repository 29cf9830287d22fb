"""`levada configs`: its flags, and the text of what it describes."""

import argparse
import doctest
from pathlib import Path
from types import ModuleType

import pytest

from levada.cli.configs import add_arguments, flags, quotas
from levada.cli.configs.entities import Entities, entities_of
from levada.cli.configs.flags import parse_settings, settings_to_add
from levada.cli.configs.quotas import java_double, password, password_line, quota_line
from levada.cli.configs.resources import SOURCE_NAMES, heading, line
from levada.cli.kit.parser import ToolParser
from levada.cli.kit.refusals import WrongUsage
from levada.cli.main import main
from levada.client.admin import ConfigEntry, ConfigSource, ConfigSynonym, ScramCredential, ScramMechanism


def parsed(line: str) -> argparse.Namespace:
    parser = ToolParser(prog="levada configs")
    add_arguments(parser)
    return parser.read(line.split())


@pytest.mark.parametrize("module", [flags, quotas])
def test_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    ("line", "types", "names"),
    [
        ("--topic orders", ("topics",), ("orders",)),
        ("--broker-logger 1", ("broker-loggers",), ("1",)),
        ("--client-metrics slow", ("client-metrics",), ("slow",)),
        ("--entity-type topics", ("topics",), ()),
        ("--broker-defaults", ("brokers",), ("",)),
        ("--entity-type brokers --entity-default", ("brokers",), ("",)),
        # The flags have an order of their own.
        ("--user alice --client reader", ("clients", "users"), ("reader", "alice")),
        ("--user-defaults --client reader", ("clients", "users"), ("reader", "")),
        ("--entity-type users --entity-name alice --entity-type clients --entity-default",
         ("users", "clients"), ("alice", "")),
        ("--entity-type users --entity-default --entity-type clients --entity-name reader",
         ("users", "clients"), ("", "reader")),
    ],
)  # fmt: skip
def test_flags_say_whose_settings_are_meant(line: str, types: tuple[str, ...], names: tuple[str, ...]) -> None:
    assert entities_of(parsed(f"--describe {line}")) == Entities(types, names)


ADD = "--alter --add-config retention.ms=1"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--topic a", "one of the arguments --describe --alter is required"),
        ("--describe", "whose settings? Give --topic, --broker, --group, ... or --entity-type"),
        ("--describe --topic a --entity-name a", "give either --entity-type and --entity-name or a flag such as"),
        ("--describe --entity-type things", "there is no entity type 'things'; there are topics, clients, users"),
        ("--describe --entity-type topics --entity-type topics", "the entity type topics is given twice"),
        ("--describe --topic a --broker 1", "only users and clients can be given together, not topics and brokers"),
        ("--describe --entity-type topics --entity-name a --entity-name b", "there are more names than entity types"),
        ("--describe --broker one", "a broker's name is its id, a whole number, not 'one'"),
        ("--describe --ip no.such.host.invalid", "'no.such.host.invalid' is neither an address nor a host"),
        ("--describe --entity-type topics --entity-default", "topics have no defaults to describe"),
        ("--describe --entity-type broker-loggers", "which broker's loggers? Give --broker-logger ID"),
        ("--describe --topic a --delete-config b", "--delete-config goes with --alter, not with --describe"),
        ("--alter --topic a", "--alter needs --add-config, --add-config-file or --delete-config"),
        ("--alter --topic a --delete-config b --json", "--json goes with --describe, not with --alter"),
        (f"{ADD} --topic a --add-config-file f", "give either --add-config or --add-config-file, not both"),
        (f"{ADD} --entity-type topics", "which of the topics shall be altered? Give its name"),
        (f"{ADD} --entity-type brokers", "brokers need a name each, or their defaults"),
        (f"{ADD} --entity-type users --entity-type clients --entity-name a", "users and clients need a name each"),
        (f"{ADD} --topic a --delete-config retention.ms", "retention.ms cannot be set and deleted at the same time"),
        (f"{ADD} --ip localhost", "ips have no retention.ms, only connection_creation_rate"),
        (f"{ADD} --user a", "users have no retention.ms, only producer_byte_rate"),
        ("--alter --user a --add-config producer_byte_rate=fast", "producer_byte_rate wants a number, not 'fast'"),
        ("--alter --user a --client b --delete-config SCRAM-SHA-256", "clients and users have no SCRAM-SHA-256, only"),
        ("--alter --user-defaults --delete-config SCRAM-SHA-256", "a password belongs to one user, not to the default"),
        ("--alter --user a --delete-config SCRAM-SHA-256,producer_byte_rate", "quotas and passwords cannot be changed"),
        ("--alter --user a --add-config SCRAM-SHA-256=s3cret", "SCRAM-SHA-256 wants [password=...] or [iterations="),
        ("--alter --user a --add-config SCRAM-SHA-256=password=s3cret", "--add-config: 'SCRAM-SHA-256' is not KEY="),
        ("--alter --user a --add-config SCRAM-SHA-256=[iterations=1,password=s3cret]", "SCRAM-SHA-256 wants at least"),
        ("--alter --topic a --add-config retention.ms", "--add-config: 'retention.ms' is not KEY=VALUE"),
        ("--alter --topic a --add-config a/b=1", "'a/b' cannot be the name of a setting"),
    ],
)
def test_flags_that_make_no_sense_are_one_line(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code: object = main(["configs", *line.split()])
    except SystemExit as end:
        code = end.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err.startswith(f"levada: {said}")
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    # A reader of a script's log need not learn it.
    assert "s3cret" not in captured.err


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1", {"a": "1"}),
        ("a=", {"a": ""}),
        (" a = 1 , b = 2 ", {"a": "1", "b": "2"}),
        ("a=[x,y],b=2,", {"a": "x,y", "b": "2"}),
        ("SCRAM-SHA-256=[iterations=8192,password=a=b]", {"SCRAM-SHA-256": "iterations=8192,password=a=b"}),
    ],
)
def test_settings_stand_between_commas(text: str, settings: dict[str, str]) -> None:
    assert parse_settings(text) == settings


@pytest.mark.parametrize("text", ["", "a", "a=1=2", "a=x,y", "a=1,,b=2"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(WrongUsage, match="is not KEY=VALUE"):
        parse_settings(text)


def test_settings_come_from_a_file_too(tmp_path: Path) -> None:
    path = tmp_path / "more.properties"
    path.write_text("# so it is\nretention.ms = 1000\ncleanup.policy=compact,delete\n")
    arguments = parsed(f"--alter --topic a --add-config-file {path}")
    assert settings_to_add(arguments) == {"retention.ms": "1000", "cleanup.policy": "compact,delete"}


def test_a_setting_is_a_line_with_where_its_value_comes_from() -> None:
    synonyms = (
        ConfigSynonym("retention.ms", "1", ConfigSource.TOPIC),
        ConfigSynonym("log.retention.ms", None, ConfigSource.STATIC_BROKER),
    )
    entry = ConfigEntry("retention.ms", "1", ConfigSource.TOPIC, False, False, synonyms=synonyms)
    assert line(entry) == (
        "  retention.ms=1 sensitive=false synonyms="
        "{DYNAMIC_TOPIC_CONFIG:retention.ms=1, STATIC_BROKER_CONFIG:log.retention.ms=null}"
    )
    secret = ConfigEntry("ssl.key.password", None, ConfigSource.DEFAULT, False, True)
    assert line(secret) == "  ssl.key.password=null sensitive=true synonyms={}"
    assert set(SOURCE_NAMES) == set(ConfigSource)


def test_headings() -> None:
    assert heading("topics", "orders", is_all=False) == "Dynamic configs for topic orders are:"
    assert heading("client-metrics", "slow", is_all=True) == "All configs for client-metric slow are:"
    assert heading("brokers", "", is_all=True) == "Default configs for brokers in the cluster are:"


def test_quotas_and_passwords() -> None:
    everyone = frozenset({("user", None)})
    assert quota_line(everyone, {"request_percentage": 50.0, "consumer_byte_rate": 1024.0}) == (
        "Quota configs for the default user-principal are consumer_byte_rate=1024.0, request_percentage=50.0"
    )
    assert quota_line(frozenset({("ip", "::1")}), {"connection_creation_rate": 7.0}) == (
        "Quota configs for ip '::1' are connection_creation_rate=7.0"
    )
    credentials = (
        ScramCredential(ScramMechanism.SCRAM_SHA_256, 8_192),
        ScramCredential(ScramMechanism.SCRAM_SHA_512, 4_096),
    )
    assert password_line("alice", credentials) == (
        "SCRAM credential configs for user-principal 'alice' are"
        " SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    )
    assert password_line("bob", ValueError("torn")) == (
        "Error retrieving SCRAM credential configs for user-principal 'bob': torn"
    )


def test_a_password_may_hold_any_character() -> None:
    assert password("alice", "SCRAM-SHA-512", "password=a,b=c").password == "a,b=c"
    assert password("alice", "SCRAM-SHA-512", "iterations=-1,password=").iterations == 4_096


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (1e-7, "1.0E-7"),
        (9_999_999.0, "9999999.0"),
        (10_000_000.0, "1.0E7"),
        (12_345_678.5, "1.23456785E7"),
        (1e22, "1.0E22"),
        (-2e7, "-2.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_numbers_look_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text
