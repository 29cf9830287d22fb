"""Schemas of a registry: by id, the latest of a subject, new ones, each with those that it refers to."""

from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from urllib.parse import quote

from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry.address import Registry
from levada.spark.rows.registry.requests import REQUEST_S, Invalid, NotThere, RegistryAway, Unfit, Unreadable, ask

AVRO: Final = "AVRO"
KINDS: Final[Mapping[str, str]] = {"avro": AVRO, "json": "JSON", "protobuf": "PROTOBUF"}
"""What a registry calls the formats."""
WORDS: Final[Mapping[str, str]] = {AVRO: "Avro", "JSON": "JSON Schema", "PROTOBUF": "Protobuf"}
MOST_REFERENCES: Final = 200

T = TypeVar("T", str, int)


@dataclass(frozen=True, slots=True)
class Registered:
    """`text` is JSON for Avro and JSON Schema, and a FileDescriptorProto in base64 for Protobuf."""

    id: int
    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()
    """Other schemas by the names that this one has for them, each behind those that it refers to itself."""


def schema_by_id(registry: Registry, schema_id: int, kind: str, limit_s: float = REQUEST_S) -> Registered:
    """NotThere if there is none; it may be of another kind than the one that is wanted."""
    answer = ask(registry, "GET", f"/schemas/ids/{schema_id}", limit_s=limit_s)
    found_kind = kind_of(answer)
    if found_kind != kind:
        return Registered(schema_id, found_kind, "")
    text = _text_of(registry, schema_id, answer, kind, limit_s)
    references: dict[str, str] = {}
    _follow(registry, answer, kind, references, set(), limit_s)
    return Registered(schema_id, kind, text, tuple(references.items()))


def latest(registry: Registry, subject: str, kind: str, limit_s: float = REQUEST_S) -> Registered:
    """The latest version of a subject; RowsError if it has none, or one of another kind."""
    try:
        answer = ask(registry, "GET", f"/subjects/{_quoted(subject)}/versions/latest", limit_s=limit_s)
    except NotThere:
        raise NotThere(
            f"{registry.shown} has no subject {subject!r}: give schema=..., or name one that it has, subject=..."
        ) from None
    found = kind_of(answer)
    if found != kind:
        raise RowsError(f"the subject {subject!r} is {WORDS.get(found, found)}, and {WORDS[kind]} is asked for")
    return schema_by_id(registry, _given(answer, "id", int), kind, limit_s)


def looked_up(registry: Registry, subject: str, kind: str, text: str, limit_s: float = REQUEST_S) -> int | None:
    """The id of this very schema in the subject, if it is there."""
    try:
        answer = ask(registry, "POST", f"/subjects/{_quoted(subject)}", _content(kind, text), limit_s)
    except NotThere:
        return None
    return _given(answer, "id", int)


def registered(registry: Registry, subject: str, kind: str, text: str) -> int:
    """The id of the schema, which becomes the subject's latest version if it is not one of them."""
    found = looked_up(registry, subject, kind, text)
    if found is not None:
        return found
    try:
        answer = ask(registry, "POST", f"/subjects/{_quoted(subject)}/versions", _content(kind, text))
    except Unfit as error:
        refusal = refusal_of(registry, subject, kind, text)
        raise RowsError(refusal or _incompatible(registry, subject, str(error))) from None
    return _given(answer, "id", int)


def refusal_of(registry: Registry, subject: str, kind: str, text: str, limit_s: float = REQUEST_S) -> str | None:
    """Why the registry would not take the schema, without giving it one."""
    path = f"/compatibility/subjects/{_quoted(subject)}/versions/latest?verbose=true"
    try:
        answer = ask(registry, "POST", path, _content(kind, text), limit_s)
    except NotThere:
        return None
    except Invalid as error:
        return str(error)
    if not isinstance(answer, dict) or answer.get("is_compatible") is not False:
        return None
    messages = answer.get("messages")
    said = next((each for each in messages if isinstance(each, str)), "") if isinstance(messages, list) else ""
    return _incompatible(registry, subject, " ".join(said.split())[:300])


def is_there(registry: Registry, subject: str, limit_s: float) -> bool:
    """Whether the subject is there; RegistryAway and other RowsErrors say what is wrong with the registry."""
    try:
        ask(registry, "GET", f"/subjects/{_quoted(subject)}/versions/latest", limit_s=limit_s)
    except NotThere:
        return False
    return True


def kind_of(answer: Any) -> str:
    """Registries leave it out for Avro."""
    found = answer.get("schemaType") if isinstance(answer, dict) else None
    return found if isinstance(found, str) else AVRO


def _follow(
    registry: Registry, answer: Any, kind: str, found: dict[str, str], seen: set[tuple[str, int]], limit_s: float
) -> None:
    """The schemas that one refers to, those that these refer to first."""
    for reference in answer.get("references") or ():
        name, subject = _given(reference, "name", str), _given(reference, "subject", str)
        version = _given(reference, "version", int)
        if (subject, version) in seen:
            continue
        seen.add((subject, version))
        if len(seen) > MOST_REFERENCES:
            raise Unreadable(f"it refers to more than {MOST_REFERENCES} others")
        path = f"/subjects/{_quoted(subject)}/versions/{version}?deleted=true"
        other = ask(registry, "GET", path, limit_s=limit_s)
        text = _text_of(registry, _given(other, "id", int), other, kind, limit_s)
        _follow(registry, other, kind, found, seen, limit_s)
        found.setdefault(name, text)


def _text_of(registry: Registry, schema_id: int, answer: Any, kind: str, limit_s: float) -> str:
    text = _given(answer, "schema", str)
    if kind != KINDS["protobuf"] or _is_base64(text):
        return text
    # Asked for only where it is needed: some registries cannot do it for schemas that are descriptors already.
    serialized = ask(registry, "GET", f"/schemas/ids/{schema_id}?format=serialized", limit_s=limit_s)
    return _given(serialized, "schema", str)


def _is_base64(text: str) -> bool:
    """Of a descriptor, rather than the text of a .proto file."""
    try:
        return bool(b64decode(text, validate=True))
    except ValueError:
        return False


def _given(answer: Any, name: str, kind: type[T]) -> T:
    found = answer.get(name) if isinstance(answer, dict) else None
    if not isinstance(found, kind) or isinstance(found, bool):
        raise RegistryAway(f"an answer has no {name!r}, so that what gave it is no schema registry")
    return found


def _content(kind: str, text: str) -> dict[str, str]:
    # Registries that know Avro alone know no type.
    return {"schema": text} if kind == AVRO else {"schemaType": kind, "schema": text}


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _incompatible(registry: Registry, subject: str, said: str) -> str:
    reason = f" ({said})" if said else ""
    return (
        f"the schema does not fit those of the subject {subject!r} at {registry.shown}{reason}: change it so that it "
        "does, write to another subject=..., or let its operator change the subject's compatibility"
    )
