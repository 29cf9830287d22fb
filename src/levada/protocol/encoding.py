"""Compiles a declared message and a version into one flat function from an object to pieces of bytes."""

from collections.abc import Callable, Generator
from struct import Struct as Packed
from typing import Any

from levada.protocol import runtime
from levada.protocol.declare import Message, Struct
from levada.protocol.schema import FIXED, FieldSpec, fields_of
from levada.protocol.source import GeneratedSource

NULL_COUNT = b"\xff\xff\xff\xff"

Encoder = Callable[[Any, Callable[[Any], object]], None]
"""(message, write): calls `write` with each piece in order."""


SlicedEncoder = Callable[[Any, Callable[[Any], object]], Generator[None, None, None]]
"""The same with pauses."""


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    encoder: Encoder = _Compiler(cls, version, is_sliced=False).compile()
    return encoder


def compile_sliced_encoder(cls: type[Message], version: int) -> SlicedEncoder:
    encoder: SlicedEncoder = _Compiler(cls, version, is_sliced=True).compile()
    return encoder


class _Compiler:
    """One compilation; `_pending` collects neighbours of fixed size that one pack will write."""

    def __init__(self, cls: type[Message], version: int, *, is_sliced: bool) -> None:
        self._cls = cls
        self._is_sliced = is_sliced
        self._version = version
        self._is_flexible = version >= cls.flexible_since
        self._scope: dict[str, Any] = {
            "SMALL": runtime.SMALL,
            "uvarint": runtime.uvarint,
            "long_array": runtime.long_array,
            "refuse_value": runtime.refuse_value,
            "write_tags": runtime.write_tags,
        }
        self._pending: list[tuple[str, str]] = []
        self._source = GeneratedSource(self._scope)

    def compile(self) -> Any:
        with self._source.block("def encode(m, write):"):
            if self._is_sliced:
                self._source.line("done = 0")
                # Whatever it has in it, it is a generator.
                self._source.line("if done: yield")
            self._struct(self._cls, "m")
            self._flush()
        self._execute()
        return self._scope["encode"]

    def _execute(self) -> None:
        where = f"<encode {self._cls.__name__} v{self._version}>"
        exec(compile(self._source.text(), where, "exec"), self._scope)

    def _struct(self, cls: type[Struct], target: str) -> None:
        for spec in fields_of(cls):
            if not spec.lives_in(self._version):
                self._refuse_lost_value(spec, f"{target}.{spec.name}")
            elif spec.tag is None:
                self._field(spec, f"{target}.{spec.name}")
        if self._is_flexible:
            self._tags(cls, target)

    def _refuse_lost_value(self, spec: FieldSpec, value: str) -> None:
        if not spec.is_ignorable:
            with self._source.block(f"if {self._differs(spec, value)}:"):
                self._source.line(f"refuse_value({spec.name!r})")

    def _differs(self, spec: FieldSpec, value: str) -> str:
        """A condition that is true when the value is not the field's default."""
        if spec.default_factory is list:
            return value if not spec.nullable_in(spec.last_version) else f"{value} != []"
        if spec.default_factory is not None:
            return f"{value} != {self._source.constant('default', spec.default_factory())}"
        if spec.default is None:
            return f"{value} is not None"
        return f"{value} != {spec.default!r}"

    def _take(self, letter: str, value: str) -> None:
        self._pending.append((letter, value))

    def _packed(self, *more: tuple[str, str]) -> str:
        """The call that packs what is pending, and `more` after it; a pad byte has no value."""
        group = [*self._pending, *more]
        pack = self._source.constant("pack", Packed(">" + "".join(letter for letter, _ in group)).pack)
        return f"{pack}({', '.join(value for _, value in group if value)})"

    def _flush(self) -> None:
        if self._pending:
            self._source.line(f"write({self._packed()})")
            self._pending = []

    def _field(self, spec: FieldSpec, value: str) -> None:
        if spec.is_fixed:
            self._take(FIXED[spec.wire], value)
        elif spec.is_array:
            self._array(spec, value)
        elif spec.struct is not None:
            self._nested(spec, spec.struct, value)
        else:
            self._sized(spec, value)

    def _sized(self, spec: FieldSpec, value: str) -> None:
        if not spec.nullable_in(self._version):
            self._present(spec, value)
        elif self._is_flexible:
            self._nullable_compact(spec, value)
        else:
            self._nullable(spec, value)

    def _present(self, spec: FieldSpec, value: str) -> None:
        piece, length = self._source.name("s"), self._source.name("n")
        self._source.line(f"{piece} = {value}{_encoded(spec)}")
        self._source.line(f"{length} = len({piece}){' + 1' if self._is_flexible else ''}")
        self._length(length, "h" if spec.wire == "string" else "i")
        self._source.line(f"write({piece})")

    def _nullable_compact(self, spec: FieldSpec, value: str) -> None:
        """Null is the length 0, one zero byte that goes with what is pending."""
        item = self._source.name("v")
        self._source.line(f"{item} = {value}")
        pending = self._pending
        with self._source.block(f"if {item} is None:"):
            self._write_zero()
        self._pending = pending
        with self._source.block("else:"):
            self._present(spec, item)

    def _nullable(self, spec: FieldSpec, value: str) -> None:
        emit = self._source.line
        piece, length = self._source.name("s"), self._source.name("n")
        emit(f"{piece} = {value}")
        with self._source.block(f"if {piece} is None:"):
            emit(f"{piece} = b''")
            emit(f"{length} = -1")
        with self._source.block("else:"):
            if _encoded(spec):
                emit(f"{piece} = {piece}{_encoded(spec)}")
            emit(f"{length} = len({piece})")
        self._length(length, "h" if spec.wire == "string" else "i")
        emit(f"write({piece})")

    def _write_zero(self) -> None:
        """One zero byte together with what is pending."""
        self._source.line(f"write({self._packed(('x', ''))})" if self._pending else r"write(b'\0')")
        self._pending = []

    def _length(self, length: str, letter: str) -> None:
        """Write a length or count together with what is pending."""
        if not self._is_flexible:
            self._take(letter, length)
            self._flush()
            return
        short = self._packed(("B", length)) if self._pending else f"SMALL[{length}]"
        with self._source.block(f"if {length} < 128:"):
            self._source.line(f"write({short})")
        with self._source.block("else:"):
            self._flush()
            self._source.line(f"write(uvarint({length}))")
        self._pending = []

    def _array(self, spec: FieldSpec, value: str) -> None:
        items = self._source.name("a")
        self._source.line(f"{items} = {value}")
        if not spec.nullable_in(self._version):
            self._items(spec, items)
            return
        self._flush()
        with self._source.block(f"if {items} is None:"):
            self._source.line(f"write({bytes(1) if self._is_flexible else NULL_COUNT!r})")
        with self._source.block("else:"):
            self._items(spec, items)
            self._flush()

    def _items(self, spec: FieldSpec, items: str) -> None:
        emit = self._source.line
        if spec.wire in FIXED:
            self._flush()
            self._numbers(spec, items)
            return
        count = self._source.name("n")
        emit(f"{count} = len({items}){' + 1' if self._is_flexible else ''}")
        self._length(count, "i")
        element = self._source.name("e")
        with self._source.block(f"for {element} in {items}:"):
            if self._is_sliced:
                emit("done += 1")
                with self._source.block(f"if not done & {runtime.SLICE_MASK}:"):
                    emit("yield")
            if spec.struct is not None:
                self._struct(spec.struct, element)
                self._flush()
            else:
                self._present(spec, element)

    def _numbers(self, spec: FieldSpec, items: str) -> None:
        letter = FIXED[spec.wire]
        prefix = "B" if self._is_flexible else "i"
        packers = self._source.constant("packers", runtime.short_packers(prefix, letter))
        count = self._source.name("n")
        self._source.line(f"{count} = len({items})")
        with self._source.block(f"if {count} < {runtime.SHORT_ARRAY}:"):
            counted = f"{count} + 1" if self._is_flexible else count
            self._source.line(f"write({packers}[{count}]({counted}, *{items}))")
        with self._source.block("else:"):
            self._source.line(f"write(long_array({prefix!r}, {letter!r}, {items}))")

    def _nested(self, spec: FieldSpec, cls: type[Struct], value: str) -> None:
        element = self._source.name("e")
        self._source.line(f"{element} = {value}")
        if not spec.nullable_in(self._version):
            self._struct(cls, element)
            return
        self._flush()
        with self._source.block(f"if {element} is None:"):
            # In a tag the presence of a struct is a varint.
            self._source.line(f"write({bytes(1) if spec.tag is not None else bytes([255])!r})")
        with self._source.block("else:"):
            self._take("b", "1")
            self._struct(cls, element)
            self._flush()

    def _tags(self, cls: type[Struct], target: str) -> None:
        tagged = [spec for spec in fields_of(cls) if spec.tag is not None and spec.lives_in(self._version)]
        tagged.sort(key=lambda spec: spec.tag or 0)
        write_tags = self._tags_function(tagged)
        conditions = [self._differs(spec, f"{target}.{spec.name}") for spec in tagged]
        conditions.append(f"{target}.unknown_tags is not None")
        pending = self._pending
        with self._source.block(f"if {' or '.join(conditions)}:"):
            self._flush()
            self._source.line(f"{write_tags}({target}, write)")
        self._pending = pending
        with self._source.block("else:"):
            self._write_zero()

    def _tags_function(self, tagged: list[FieldSpec]) -> str:
        """A function for the rare struct that has tags; compiled apart so that the main path stays short."""
        outer, pending = self._source, self._pending
        is_sliced, self._is_sliced = self._is_sliced, False
        self._source, self._pending = GeneratedSource(self._scope), []
        name = self._source.name("tags")
        emit = self._source.line
        with self._source.block(f"def {name}(m, write_frame):"):
            emit("tags = []")
            for spec in tagged:
                self._tag(spec)
            emit("write_tags(write_frame, tags, m.unknown_tags)")
        self._execute()
        self._source, self._pending, self._is_sliced = outer, pending, is_sliced
        return name

    def _tag(self, spec: FieldSpec) -> None:
        emit = self._source.line
        value = f"m.{spec.name}"
        condition = self._differs(spec, value)
        if spec.struct is not None and not spec.is_array and not spec.nullable_in(self._version):
            condition += f" and {value} != {self._source.constant('default', spec.struct())}"
        with self._source.block(f"if {condition}:"):
            emit("pieces = []")
            emit("write = pieces.append")
            self._field(spec, value)
            self._flush()
            emit(f"tags.append(({spec.tag}, b''.join(pieces)))")


def _encoded(spec: FieldSpec) -> str:
    return ".encode()" if spec.wire == "string" else ""
