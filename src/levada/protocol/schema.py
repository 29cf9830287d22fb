"""Reads declared classes into the plain description the compilers work from."""

from dataclasses import MISSING, Field, dataclass, fields
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from levada.protocol.declare import Ignorable, NullableSince, Since, Struct, Tag, Until, Wire

FIXED = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""Types of fixed size, by their letter in the struct module."""

SIZES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
}


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """One field: its type, the versions that have it, and how it may be absent."""

    name: str
    wire: str
    """A name of FIXED, `string`, `bytes`, `records`, or `struct`."""
    is_array: bool
    struct: type[Struct] | None
    first_version: int
    last_version: int
    nullable_since: int
    tag: int | None
    is_ignorable: bool
    default: Any
    default_factory: Any

    def lives_in(self, version: int) -> bool:
        return self.first_version <= version <= self.last_version

    def nullable_in(self, version: int) -> bool:
        return version >= self.nullable_since

    @property
    def is_fixed(self) -> bool:
        return not self.is_array and self.wire in FIXED


NEVER = 2**15
"""A version that no message reaches."""

_IMPLICIT_DEFAULTS: dict[str, Any] = {"bool": False, "float64": 0.0, "string": "", "bytes": b"", "uuid": bytes(16)}


_specs: dict[type, tuple[FieldSpec, ...]] = {}


def fields_of(cls: type[Struct]) -> tuple[FieldSpec, ...]:
    """The declared fields of a class in wire order."""
    if cls not in _specs:
        hints = get_type_hints(cls, include_extras=True)
        declared = [field for field in fields(cls) if field.name != "unknown_tags"]
        _specs[cls] = tuple(_field(field, hints[field.name]) for field in declared)
    return _specs[cls]


def _field(declared: "Field[Any]", hint: Any) -> FieldSpec:
    marks: dict[type, Any] = {}
    if get_origin(hint) is Annotated:
        # Nested Annotated types are flattened, so the marks of a plain type stand beside its Wire.
        marks = {type(mark): mark for mark in hint.__metadata__}
        hint = hint if Wire in marks else hint.__origin__
    hint, is_optional = _without_none(hint)
    is_array = get_origin(hint) is list
    if is_array:
        (hint,) = get_args(hint)
    wire = _wire_of(hint)
    tag = marks[Tag].number if Tag in marks else None
    # A tagged struct is None for "all defaults", which is not the null that the wire knows, unless the mark says so.
    is_nullable = is_optional and (tag is None or wire is not None or is_array or NullableSince in marks)
    nullable_since = marks[NullableSince].version if NullableSince in marks else 0
    return FieldSpec(
        name=declared.name,
        wire=wire or "struct",
        is_array=is_array,
        struct=None if wire else hint,
        first_version=marks[Since].version if Since in marks else 0,
        last_version=marks[Until].version if Until in marks else NEVER,
        nullable_since=nullable_since if is_nullable else NEVER,
        tag=tag,
        is_ignorable=Ignorable in marks,
        default=_implicit_default(wire) if declared.default is MISSING else declared.default,
        default_factory=_factory(declared, is_array, None if wire else hint),
    )


def _wire_of(hint: Any) -> str | None:
    if get_origin(hint) is not Annotated:
        return None
    return next((mark.name for mark in get_args(hint)[1:] if isinstance(mark, Wire)), None)


def _without_none(hint: Any) -> tuple[Any, bool]:
    if get_origin(hint) not in (Union, UnionType):
        return hint, False
    members = get_args(hint)
    rest = [member for member in members if member is not NoneType]
    if len(rest) == len(members):
        return hint, False
    assert len(rest) == 1, f"only `T | None` is part of the notation, not {hint}"
    return rest[0], True


def _implicit_default(wire: str | None) -> Any:
    return None if wire is None else _IMPLICIT_DEFAULTS.get(wire, 0)


def _factory(declared: "Field[Any]", is_array: bool, struct: type[Struct] | None) -> Any:
    if declared.default_factory is not MISSING:
        return declared.default_factory
    if declared.default is not MISSING:
        return None
    if is_array:
        return list
    return struct
