"""Compiles a declared message and a version into one flat function from bytes to an object."""

from collections.abc import Callable, Generator
from enum import Enum
from struct import Struct as Packed
from typing import Any

from levada.model.buffers import Buffer
from levada.protocol import runtime
from levada.protocol.declare import Message, Struct
from levada.protocol.schema import FIXED, SIZES, FieldSpec, fields_of
from levada.protocol.source import GeneratedSource

Decoder = Callable[[Buffer, int, int], tuple[Any, int]]
"""(data, position, end) -> (message, position after it)."""

SlicedDecoder = Callable[[Buffer, int, int, list[int]], Generator[None, None, tuple[Any, int]]]
"""The same with pauses, and a list of one number: how many elements are decoded, kept up to date at every pause."""

MAX_STRING_BYTES = 2**15 - 1


class _Pace(Enum):
    WHOLE = "all at once"
    LIMITED = "all at once, or TooManyElements"
    SLICED = "with pauses"


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    decoder: Decoder = _Compiler(cls, version, _Pace.WHOLE).compile()
    return decoder


def compile_limited_decoder(cls: type[Message], version: int) -> Decoder:
    """For requests: one that would hold the event loop for long is TooManyElements."""
    decoder: Decoder = _Compiler(cls, version, _Pace.LIMITED).compile()
    return decoder


def compile_sliced_decoder(cls: type[Message], version: int) -> SlicedDecoder:
    decoder: SlicedDecoder = _Compiler(cls, version, _Pace.SLICED).compile()
    return decoder


def least_size(cls: type[Struct], version: int, is_flexible: bool) -> int:
    """The fewest bytes a struct takes, so that a count can be checked before anything is made."""
    size = 1 if is_flexible else 0
    for spec in fields_of(cls):
        if spec.lives_in(version) and spec.tag is None:
            size += _least_field_size(spec, version, is_flexible)
    return max(size, 1)


def _least_field_size(spec: FieldSpec, version: int, is_flexible: bool) -> int:
    if spec.is_fixed:
        return SIZES[spec.wire]
    if spec.is_array:
        return 1 if is_flexible else 4
    if spec.struct is not None:
        return 1 if spec.nullable_in(version) else least_size(spec.struct, version, is_flexible)
    if is_flexible:
        return 1
    return 2 if spec.wire == "string" else 4


class _Compiler:
    """One compilation; `_pending` collects neighbours of fixed size that one unpack will read."""

    def __init__(self, cls: type[Message], version: int, pace: _Pace) -> None:
        self._cls = cls
        self._pace = pace
        self._version = version
        self._is_flexible = version >= cls.flexible_since
        self._scope: dict[str, Any] = {
            "new": object.__new__,
            "read_uvarint": runtime.read_uvarint,
            "read_long_uvarint": runtime.read_long_uvarint,
            "read_long_array": runtime.read_long_array,
            "read_numbers_in_slices": runtime.read_numbers_in_slices,
            "refuse_many": runtime.refuse_many,
            "refuse_null": runtime.refuse_null,
            "refuse_length": runtime.refuse_length,
            "refuse_string": runtime.refuse_string,
            "refuse_tag_size": runtime.refuse_tag_size,
        }
        self._pending: list[tuple[str, str, int]] = []
        self._source = GeneratedSource(self._scope)

    def compile(self) -> Any:
        with self._source.block(f"def decode(data, pos, end{self._counter}):"):
            self._begin_count()
            self._struct(self._cls, "m")
            self._flush()
            self._source.line("return m, pos")
        self._execute()
        return self._scope["decode"]

    @property
    def _counter(self) -> str:
        """The last parameter of what counts its elements."""
        return ", done" if self._pace is _Pace.SLICED else ""

    def _begin_count(self) -> None:
        if self._pace is _Pace.LIMITED:
            self._source.line(f"left = {runtime.MAX_ELEMENTS_AT_ONCE}")
        elif self._pace is _Pace.SLICED:
            # Whatever it has in it, it is a generator.
            self._source.line("if done[0] < 0: yield")

    def _count_elements(self, count: str) -> None:
        """Before so many elements are decoded."""
        if self._pace is _Pace.LIMITED:
            self._source.line(f"left -= {count}")
            with self._source.block("if left < 0:"):
                self._source.line("refuse_many()")

    def _pause(self) -> None:
        """Between two elements."""
        if self._pace is _Pace.SLICED:
            self._source.line("done[0] += 1")
            # Not at certain numbers: elements of inner arrays count too, and could pass over all of them.
            with self._source.block("if done[0] >= done[1]:"):
                self._source.line(f"done[1] = done[0] + {runtime.SLICE}")
                self._source.line("yield")

    def _execute(self) -> None:
        where = f"<decode {self._cls.__name__} v{self._version}>"
        exec(compile(self._source.text(), where, "exec"), self._scope)

    def _struct(self, cls: type[Struct], target: str) -> None:
        emit = self._source.line
        self._flush()
        emit(f"{target} = new({self._source.constant(cls.__name__, cls)})")
        for spec in fields_of(cls):
            if not spec.lives_in(self._version) or spec.tag is not None:
                emit(f"{target}.{spec.name} = {self._default(spec)}")
        emit(f"{target}.unknown_tags = None")
        for spec in fields_of(cls):
            if spec.lives_in(self._version) and spec.tag is None:
                self._field(spec, f"{target}.{spec.name}")
        if self._is_flexible:
            tags = self._tags_function(cls)
            count = self._source.name("t")
            self._take("B", 1, count)
            self._flush()
            with self._source.block(f"if {count}:"):
                if self._pace is _Pace.SLICED:
                    emit(f"pos = yield from {tags}({target}, data, pos, end, {count}, done)")
                else:
                    emit(f"pos = {tags}({target}, data, pos, end, {count})")

    def _default(self, spec: FieldSpec) -> str:
        if spec.default_factory is list:
            return "[]"
        if spec.default_factory is not None and (spec.tag is None or spec.nullable_in(self._version)):
            return f"{self._source.constant('make', spec.default_factory)}()"
        return repr(spec.default)

    def _take(self, letter: str, size: int, target: str) -> None:
        self._pending.append((letter, target, size))

    def _flush(self) -> None:
        if not self._pending:
            return
        letters = "".join(letter for letter, _, _ in self._pending)
        size = sum(size for _, _, size in self._pending)
        targets = [target for _, target, _ in self._pending]
        self._pending = []
        if letters == "B":
            self._source.line(f"{targets[0]} = data[pos]")
        else:
            unpack = self._source.constant("unpack", Packed(">" + letters).unpack_from)
            self._source.line(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(data, pos)")
        self._source.line(f"pos += {size}")

    def _field(self, spec: FieldSpec, target: str) -> None:
        if spec.is_fixed:
            self._take(FIXED[spec.wire], SIZES[spec.wire], target)
        elif spec.is_array:
            self._array(spec, target)
        elif spec.struct is not None:
            self._nested(spec, spec.struct, target)
        else:
            self._sized(spec, target)

    def _length(self, spec: FieldSpec, letter: str, size: int) -> str:
        """Read a length or count into a fresh name; null becomes -1."""
        length = self._source.name("n")
        if not self._is_flexible:
            self._take(letter, size, length)
            self._flush()
            return length
        self._take("B", 1, length)
        self._flush()
        with self._source.block(f"if {length} > 127:"):
            self._source.line(f"{length}, pos = read_long_uvarint(data, pos, {length})")
            if letter == "h":
                # A varint could say more, but older versions, in which the string may have to be sent on, could not.
                with self._source.block(f"if {length} > {MAX_STRING_BYTES + 1}:"):
                    self._source.line(f"refuse_string({spec.name!r})")
        self._source.line(f"{length} -= 1")
        return length

    def _sized(self, spec: FieldSpec, target: str) -> None:
        emit = self._source.line
        length = self._length(spec, *(("h", 2) if spec.wire == "string" else ("i", 4)))
        self._null_branch(spec, length, target)
        with self._source.block("else:"):
            stop = self._source.name("s")
            emit(f"{stop} = pos + {length}")
            with self._source.block(f"if {stop} > end:"):
                emit(f"refuse_length({spec.name!r})")
            piece = f"data[pos:{stop}]"
            if spec.wire == "string":
                piece = f"str({piece}, 'utf-8')"
            elif spec.wire == "bytes":
                piece = f"bytes({piece})"
            emit(f"{target} = {piece}")
            emit(f"pos = {stop}")

    def _null_branch(self, spec: FieldSpec, length: str, target: str) -> None:
        with self._source.block(f"if {length} < 0:"):
            if spec.nullable_in(self._version):
                self._source.line(f"{target} = None")
            else:
                self._source.line(f"refuse_null({spec.name!r})")

    def _array(self, spec: FieldSpec, target: str) -> None:
        emit = self._source.line
        count = self._length(spec, "i", 4)
        self._null_branch(spec, count, target)
        with self._source.block("else:"):
            with self._source.block(f"if {count} * {self._least_element_size(spec)} > end - pos:"):
                emit(f"refuse_length({spec.name!r})")
            self._count_elements(count)
            if spec.wire in FIXED:
                self._numbers(spec, count, target)
                return
            items = self._source.name("a")
            emit(f"{items} = []")
            with self._source.block(f"for _ in range({count}):"):
                self._pause()
                element = self._source.name("e")
                if spec.struct is not None:
                    self._struct(spec.struct, element)
                    self._flush()
                else:
                    self._sized(_element_of(spec), element)
                emit(f"{items}.append({element})")
            emit(f"{target} = {items}")

    def _numbers(self, spec: FieldSpec, count: str, target: str) -> None:
        emit = self._source.line
        letter = FIXED[spec.wire]
        unpackers = self._source.constant("unpackers", runtime.short_unpackers(letter))
        with self._source.block(f"if {count} < {runtime.SHORT_ARRAY}:"):
            emit(f"{target} = list({unpackers}[{count}](data, pos))")
            if self._pace is _Pace.SLICED:
                emit(f"done[0] += {count}")
        with self._source.block("else:"):
            if self._pace is _Pace.SLICED:
                size = SIZES[spec.wire]
                emit(f"{target} = yield from read_numbers_in_slices({letter!r}, {size}, data, pos, {count}, done)")
            else:
                emit(f"{target} = list(read_long_array({letter!r}, data, pos, {count}))")
        emit(f"pos += {count} * {SIZES[spec.wire]}")

    def _least_element_size(self, spec: FieldSpec) -> int:
        if spec.struct is not None:
            return least_size(spec.struct, self._version, self._is_flexible)
        return SIZES.get(spec.wire) or (1 if self._is_flexible else 2)

    def _nested(self, spec: FieldSpec, cls: type[Struct], target: str) -> None:
        element = self._source.name("e")
        if not spec.nullable_in(self._version):
            self._struct(cls, element)
            self._flush()
            self._source.line(f"{target} = {element}")
            return
        presence = self._source.name("n")
        self._take("b", 1, presence)
        self._flush()
        if spec.tag is not None:
            # In a tag it is a varint, and null is 0.
            self._source.line(f"{presence} -= 1")
        self._null_branch(spec, presence, target)
        with self._source.block("else:"):
            self._struct(cls, element)
            self._flush()
            self._source.line(f"{target} = {element}")

    def _tags_function(self, cls: type[Struct]) -> str:
        """A function for the rare struct that has tags; compiled apart so that the main path stays short."""
        outer, pending = self._source, self._pending
        self._source, self._pending = GeneratedSource(self._scope), []
        name = self._source.name("tags")
        emit = self._source.line
        with self._source.block(f"def {name}(m, data, pos, end, count{self._counter}):"):
            self._begin_count()
            with self._source.block("if count > 127:"):
                emit("count, pos = read_long_uvarint(data, pos, count)")
            if self._pace is _Pace.LIMITED:
                with self._source.block(f"if count > {runtime.MAX_TAGS_AT_ONCE}:"):
                    emit("refuse_many()")
            emit("limit = end")
            with self._source.block("for _ in range(count):"):
                self._pause()
                emit("tag, pos = read_uvarint(data, pos)")
                emit("size, pos = read_uvarint(data, pos)")
                emit("end = pos + size")
                with self._source.block("if end > limit:"):
                    emit("refuse_length('tag')")
                self._known_tags(cls)
                with self._source.block("if pos != end:"):
                    emit("refuse_tag_size(tag)")
            emit("return pos")
        self._execute()
        self._source, self._pending = outer, pending
        return name

    def _known_tags(self, cls: type[Struct]) -> None:
        emit = self._source.line
        word = "if"
        for spec in fields_of(cls):
            if spec.tag is None or not spec.lives_in(self._version):
                continue
            with self._source.block(f"{word} tag == {spec.tag}:"):
                self._field(spec, f"m.{spec.name}")
                self._flush()
            word = "elif"
        with self._source.block("else:" if word == "elif" else "if True:"):
            with self._source.block("if m.unknown_tags is None:"):
                emit("m.unknown_tags = {}")
            emit("m.unknown_tags[tag] = bytes(data[pos:end])")
            emit("pos = end")


def _element_of(spec: FieldSpec) -> FieldSpec:
    """The description of one string or byte string of an array; elements are never null."""
    return FieldSpec(
        name=spec.name,
        wire=spec.wire,
        is_array=False,
        struct=None,
        first_version=0,
        last_version=spec.last_version,
        nullable_since=2**15,
        tag=None,
        is_ignorable=False,
        default=None,
        default_factory=None,
    )
