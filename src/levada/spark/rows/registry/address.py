"""Where a schema registry is and how to log in there, without the login in anything that is shown."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from levada.model.near_names import did_you_mean
from levada.spark.rows.durations import Duration, milliseconds
from levada.spark.rows.problems import RowsError

PREFIX: Final = "registry_"
OPTIONS: Final = ("registry_user", "registry_password", "registry_ca", "registry_wait")
DEFAULT_WAIT: Final = "10 minutes"
PORTS: Final = {"http": 80, "https": 443}
EXAMPLE: Final = "such as http://localhost:8081"


@dataclass(frozen=True, slots=True)
class Registry:
    """One registry; it travels to Spark's workers."""

    scheme: str
    host: str
    port: int
    path: str = ""
    user: str | None = field(default=None, repr=False)
    password: str = field(default="", repr=False)
    authorities: str | None = field(default=None, repr=False)
    """The certificates that its own must be signed by, as PEM; those of the machine if there are none."""
    wait_s: float = 600.0
    """How long a running query waits for it while it is away."""

    @property
    def shown(self) -> str:
        """Its address as messages have it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True)
class SchemaSource:
    """What values are framed with: a registry, and which of its subjects and messages."""

    registry: Registry
    subject: str | None
    message: str | None = None
    """Of a Protobuf schema that has several."""

    def named_subject(self) -> str:
        if self.subject is None:
            raise RowsError("the registry's subject is not known without a topic; name it: subject='...'")
        return self.subject


def schema_source(
    registry: "str | Registry | None", subject: str | None, message: str | None, options: MutableMapping[str, Any]
) -> SchemaSource | None:
    """Takes those options that are about the registry; None if there is no registry."""
    taken = {name: options.pop(name) for name in list(options) if name.lower().startswith(PREFIX)}
    given = {name.lower(): value for name, value in taken.items() if value is not None}
    if registry is None:
        named = [*given, *(name for name, value in (("subject", subject), ("message", message)) if value is not None)]
        if named:
            raise RowsError(f"{named[0]} is for a schema registry; name that as well: registry='http://host:8081'")
        return None
    return SchemaSource(registry_of(registry, given), subject, message)


def subject_of(topic: str) -> str:
    """What Confluent's clients call the subject of a topic's values."""
    return f"{topic}-value"


def registry_of(given: "str | Registry", options: Mapping[str, Any] | None = None) -> Registry:
    """Raises RowsError, which never has the address in it: a password may be anywhere in one that is wrong."""
    options = options or {}
    for name in options:
        if name not in OPTIONS:
            raise RowsError(f"unknown option {name!r}{did_you_mean(name, OPTIONS)}")
    if isinstance(given, Registry):
        if options:
            raise RowsError(f"{next(iter(options))} must be given together with the registry's address")
        return given
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError:
        raise RowsError(f"the registry's address is not a URL; give one {EXAMPLE}") from None
    if parts.scheme not in PORTS or not parts.hostname or "," in parts.netloc:
        raise RowsError(f"the registry must be one http or https address, {EXAMPLE}")
    if parts.query or parts.fragment:
        raise RowsError(f"the registry's address must end before any ? or #, {EXAMPLE}")
    user, password = _login(parts.username, parts.password, options)
    wait: Duration = options.get("registry_wait", DEFAULT_WAIT)
    return Registry(
        parts.scheme,
        parts.hostname,
        port or PORTS[parts.scheme],
        parts.path.rstrip("/"),
        user,
        password,
        _authorities(parts.scheme, options.get("registry_ca")),
        milliseconds(wait, "registry_wait") / 1_000,
    )


def _login(url_user: str | None, url_password: str | None, options: Mapping[str, Any]) -> tuple[str | None, str]:
    user, password = options.get("registry_user"), options.get("registry_password")
    if user is None and password is None:
        return (None if url_user is None else unquote(url_user)), unquote(url_password or "")
    if url_user is not None:
        raise RowsError("the registry's login is in its address and in registry_user: give it once")
    if user is None:
        raise RowsError("registry_password needs a registry_user")
    return str(user), str(password or "")


def _authorities(scheme: str, file: str | None) -> str | None:
    """The file's text: workers on other machines need not have the file."""
    if file is None:
        return None
    if scheme != "https":
        raise RowsError("registry_ca is for https; the registry's address begins with http:")
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RowsError(f"registry_ca: cannot read {file}: {error}") from None
