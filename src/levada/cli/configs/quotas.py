"""Quotas of users, clients and addresses, and users' SCRAM passwords."""

import re
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from levada.cli.configs.entities import CLIENTS, DEFAULT, IPS, USERS, Entities
from levada.cli.kit.refusals import Refused, WrongUsage
from levada.cli.kit.terminal import print_json
from levada.client.admin import (
    QuotaEntity,
    QuotaFilter,
    ScramCredential,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from levada.client.errors import UnsupportedVersion
from levada.model.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from levada.client.blocking import Admin

RATES: Final = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_RATES: Final = ("connection_creation_rate",)
MECHANISMS: Final = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}

KINDS: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
"""What the parts of a quota's entity are called in requests."""
SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}

Changes: TypeAlias = list[ScramUpsertion | ScramDeletion] | dict[str, float | None]
"""Of passwords, or of quotas by their names; None takes one away."""

CREDENTIAL: Final = re.compile(r"(?:iterations=(?P<iterations>-?[0-9]*),)?password=(?P<password>.*)", re.DOTALL)
DEFAULT_ITERATIONS: Final = 4_096
MIN_ITERATIONS: Final = 4_096
NO_ITERATIONS: Final = "-1"


def describe(admin: "Admin", entities: Entities, *, as_json: bool) -> None:
    with _served("quotas"):
        quotas = _quotas(admin, entities)
    passwords: Mapping[str, tuple[ScramCredential, ...] | Exception] = {}
    if CLIENTS not in entities.types and DEFAULT not in entities.names and entities.type == USERS:
        with _served("passwords"):
            passwords = _passwords(admin, entities.names)
    if as_json:
        print_json(_json(quotas, passwords))
        return
    for entity, rates in quotas.items():
        print(quota_line(entity, rates))
    for user, credentials in passwords.items():
        print(password_line(user, credentials))


def _quotas(admin: "Admin", entities: Entities) -> dict[QuotaEntity, dict[str, float]]:
    filters = []
    for index, type_ in enumerate(entities.types):
        name = entities.names[index] if index < len(entities.names) else None
        filters.append(QuotaFilter(KINDS[type_], name=name or None, is_default=name == DEFAULT))
    found = admin.describe_client_quotas(filters, strict=True)
    # The default of all comes first.
    return dict(sorted(found.items(), key=lambda item: sorted((kind, name or "") for kind, name in item[0])))


def _passwords(admin: "Admin", users: Sequence[str]) -> dict[str, tuple[ScramCredential, ...] | Exception]:
    found = admin.describe_user_scram_credentials(users or None)
    # A user without a password is no error: quotas may have been all that was asked for.
    passwords: dict[str, tuple[ScramCredential, ...] | Exception] = {**found.done}
    passwords |= {user: error for user, error in found.errors.items() if error.code != ErrorCode.RESOURCE_NOT_FOUND}
    return {user: passwords[user] for user in sorted(passwords)}


def quota_line(entity: QuotaEntity, rates: Mapping[str, float]) -> str:
    """
    >>> quota_line(frozenset({("user", "alice"), ("client-id", None)}), {"producer_byte_rate": 1e7})
    "Quota configs for user-principal 'alice', the default client-id are producer_byte_rate=1.0E7"
    """
    names = dict(entity)
    whose = ", ".join(
        f"the default {shown}" if names[kind] is None else f"{shown} '{names[kind]}'"
        for kind, shown in SHOWN.items()
        if kind in names
    )
    return f"Quota configs for {whose} are {', '.join(f'{key}={java_double(rates[key])}' for key in sorted(rates))}"


def password_line(user: str, credentials: tuple[ScramCredential, ...] | Exception) -> str:
    if isinstance(credentials, Exception):
        return f"Error retrieving SCRAM credential configs for user-principal '{user}': {credentials}"
    each = ", ".join(f"{_name(one.mechanism)}=iterations={one.iterations}" for one in credentials)
    return f"SCRAM credential configs for user-principal '{user}' are {each}"


def _name(mechanism: ScramMechanism) -> str:
    return mechanism.name.replace("_", "-")


def _json(
    quotas: Mapping[QuotaEntity, Mapping[str, float]],
    passwords: Mapping[str, tuple[ScramCredential, ...] | Exception],
) -> dict[str, Any]:
    return {
        "quotas": [
            {"entity": {kind.replace("-", "_"): name for kind, name in sorted(entity)}, "configs": dict(rates)}
            for entity, rates in quotas.items()
        ],
        "scram_credentials": [
            {"user": user, "error": str(credentials)}
            if isinstance(credentials, Exception)
            else {
                "user": user,
                "mechanisms": [{"name": _name(one.mechanism), "iterations": one.iterations} for one in credentials],
            }
            for user, credentials in passwords.items()
        ],
    }


def check_names(entities: Entities, names: Sequence[str]) -> None:
    """WrongUsage for settings that such an entity does not have."""
    allowed = IP_RATES if entities.type == IPS else RATES if CLIENTS in entities.types else (*RATES, *MECHANISMS)
    unknown = [name for name in names if name not in allowed]
    if unknown:
        raise WrongUsage(f"{' and '.join(entities.types)} have no {', '.join(unknown)}, only {', '.join(allowed)}")
    if not any(name in MECHANISMS for name in names):
        return
    if entities.name == DEFAULT:
        raise WrongUsage("a password belongs to one user, not to the default of all")
    if not all(name in MECHANISMS for name in names):
        raise WrongUsage("quotas and passwords cannot be changed at the same time: use two commands")


def changes_of(entities: Entities, added: Mapping[str, str], deleted: Sequence[str]) -> Changes:
    """Refuses what makes no sense before any broker is asked."""
    check_names(entities, [*added, *deleted])
    if any(name in MECHANISMS for name in (*added, *deleted)):
        assert entities.name is not None
        user = entities.name
        deletions: list[ScramUpsertion | ScramDeletion] = [ScramDeletion(user, MECHANISMS[name]) for name in deleted]
        return deletions + [password(user, name, text) for name, text in added.items()]
    return {**dict.fromkeys(deleted), **{key: rate(key, text) for key, text in added.items()}}


def alter(admin: "Admin", entities: Entities, changes: Changes) -> None:
    if isinstance(changes, list):
        with _served("passwords"):
            admin.alter_user_scram_credentials(changes).raise_any()
        return
    entity: QuotaEntity = frozenset(
        (KINDS[type_], name or None) for type_, name in zip(entities.types, entities.names, strict=True)
    )
    with _served("quotas"):
        present = _quotas(admin, entities).get(entity, {})
        if absent := [key for key, value in changes.items() if value is None and key not in present]:
            raise Refused(f"there is no {', '.join(absent)} to delete")
        admin.alter_client_quotas({entity: changes}).raise_any()


def rate(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise WrongUsage(f"{key} wants a number, not {text!r}") from None


def password(user: str, mechanism: str, text: str) -> ScramUpsertion:
    """
    >>> password("alice", "SCRAM-SHA-256", "iterations=8192,password=secret").iterations
    8192
    """
    found = CREDENTIAL.fullmatch(text)
    if found is None:
        # The text is left out: it may be the password itself.
        raise WrongUsage(f"{mechanism} wants [password=...] or [iterations=...,password=...]")
    given = found["iterations"]
    iterations = DEFAULT_ITERATIONS if given in (None, NO_ITERATIONS) else int(given or 0)
    if iterations < MIN_ITERATIONS:
        raise WrongUsage(f"{mechanism} wants at least {MIN_ITERATIONS} iterations, not {iterations}")
    return ScramUpsertion(user, found["password"], MECHANISMS[mechanism], iterations)


@contextmanager
def _served(what: str) -> "Iterator[None]":
    try:
        yield
    except UnsupportedVersion as error:
        raise Refused(f"{error}, so there are no {what} to describe or change") from None


def java_double(value: float) -> str:
    """As Java prints a double: with an exponent from ten million on, and below a thousandth.

    >>> [java_double(value) for value in (1000.0, 12.5, 1e7, 1.5e-4, 123456789.0)]
    ['1000.0', '12.5', '1.0E7', '1.5E-4', '1.23456789E8']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    digits, _, exponent = f"{value!r}".partition("e")
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, fraction = digits.partition(".")
    significant = (whole + fraction).strip("0") or "0"
    leading = len(whole.lstrip("0")) or -(len(fraction) - len(fraction.lstrip("0")))
    power = int(exponent or 0) + leading - 1
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{power}"
