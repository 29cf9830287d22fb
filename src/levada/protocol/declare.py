"""The notation for messages: wire types, the versions a field lives in, and the decorators that register a class."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Generic, TypeAlias, TypeVar, dataclass_transform

from levada.model.buffers import Buffer
from levada.world.disk import FileRange

T = TypeVar("T")
Reply_co = TypeVar("Reply_co", covariant=True)

MAX_INT32 = 2**31 - 1
MAX_INT64 = 2**63 - 1
NO_UUID = bytes(16)


@dataclass(frozen=True, slots=True)
class Wire:
    """Names the encoding of a Python type."""

    name: str


@dataclass(frozen=True, slots=True)
class Since:
    """The first version that has the field."""

    version: int


@dataclass(frozen=True, slots=True)
class Until:
    """The last version that has the field."""

    version: int


@dataclass(frozen=True, slots=True)
class NullableSince:
    """The first version in which null may be sent; a plain `| None` allows it in every version."""

    version: int


@dataclass(frozen=True, slots=True)
class Tag:
    """The field travels in the struct's tag buffer.

    A struct there is None while all its fields have their defaults, and absent on the wire. With NullableSince None is
    the wire's null, and one that is absent has all defaults.
    """

    number: int


class Ignorable:
    """Versions without the field drop its value silently; without this mark only the default may be dropped."""


IGNORABLE = Ignorable()

Bool: TypeAlias = Annotated[bool, Wire("bool")]
Int8: TypeAlias = Annotated[int, Wire("int8")]
Int16: TypeAlias = Annotated[int, Wire("int16")]
UInt16: TypeAlias = Annotated[int, Wire("uint16")]
Int32: TypeAlias = Annotated[int, Wire("int32")]
UInt32: TypeAlias = Annotated[int, Wire("uint32")]
Int64: TypeAlias = Annotated[int, Wire("int64")]
Float64: TypeAlias = Annotated[float, Wire("float64")]
Uuid: TypeAlias = Annotated[bytes, Wire("uuid")]
String: TypeAlias = Annotated[str, Wire("string")]
Bytes: TypeAlias = Annotated[bytes, Wire("bytes")]

Records: TypeAlias = Annotated[Buffer, Wire("records")]
"""Record batches; decoded as a view of the frame, so a handler that keeps them copies them."""

StoredRecords: TypeAlias = Annotated[Buffer | FileRange, Wire("records")]
"""Record batches that may still lie in a file when they are encoded."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Struct:
    """What every declared class is: plain slots, and the tags this code does not know kept apart from its fields.

    Comparison and text are written once here: generated for each of hundreds of classes, they would take most of the
    time in which a process starts.
    """

    unknown_tags: dict[int, bytes] | None = field(default=None, repr=False)

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__dataclass_fields__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = [f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"


class Message(Struct):
    """A struct that travels on its own, in the versions it names."""

    __slots__ = ()

    api_key: ClassVar[int]
    versions: ClassVar[range]
    flexible_since: ClassVar[int]


class AnsweredBy(Generic[Reply_co]):
    """A request that says of what type its reply is: what carries the one knows the other."""

    __slots__ = ()


class Request(Message, AnsweredBy[Reply_co]):
    """A message that is answered by another: `class FetchRequest(Request["FetchResponse"])`."""

    __slots__ = ()


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[T]) -> type[T]:
    """A part of a message."""
    return _slotted(cls, Struct, {})


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(*, versions: str, flexible: str = "none", api_key: int = -1) -> Callable[[type[T]], type[T]]:
    """A message with the versions it has; from `flexible` on it is compact and carries tags."""
    first, _, last = versions.partition("-")
    known = range(int(first), int(last or first) + 1)
    flexible_since = known.stop if flexible == "none" else int(flexible.rstrip("+"))

    def declare(cls: type[T]) -> type[T]:
        base = cls.__bases__[0] if issubclass(cls, Message) else Message
        return _slotted(cls, base, {"api_key": api_key, "versions": known, "flexible_since": flexible_since})

    return declare


def _slotted(cls: type[T], base: type, attributes: dict[str, Any]) -> type[T]:
    """Rebuild the class on `base` with slots: attribute access is what encoding mostly does."""
    namespace = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    # Without a text of its own, dataclass would work out the signature for one.
    namespace["__doc__"] = namespace.get("__doc__") or cls.__name__
    rebuilt = type(cls.__name__, (base,), namespace | attributes)
    made: type[T] = dataclass(slots=True, kw_only=True, eq=False, repr=False)(rebuilt)
    return made
