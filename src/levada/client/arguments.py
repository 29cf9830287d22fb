"""What calls are given, held against their signatures: a wrong kind is told before anything is done with it."""

import dataclasses
import inspect
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, wraps
from numbers import Real
from operator import index
from typing import Any, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

F = TypeVar("F", bound=Callable[..., Any])

Check: TypeAlias = Callable[[Any], Any]
"""Gives the value as the hint has it, or raises `_WrongKindError`."""

TIMEOUTS = frozenset({"timeout", "timeout_ms"})
SHOWN_CHARACTERS = 80
_CALLABLE: Any = Callable
_TEXTS = (str, bytes, bytearray, memoryview)
"""Each is a collection of its characters, which is hardly ever what was meant."""


class _WrongKindError(Exception):
    pass


def checked(method: F) -> F:
    """The method with its arguments checked; for calls that take long enough not to mind some microseconds.

    Numbers stand for members of an IntEnum, plain tuples for named ones, and iterators are read into a list.
    """
    names = list(inspect.signature(method).parameters)[1:]
    checks: dict[str, tuple[Check, str]] = {}

    def settle(name: str, value: Any) -> Any:
        if name not in checks:
            checks[name] = _check_of_parameter(method, name)
        check, kind = checks[name]
        try:
            value = check(value)
        except _WrongKindError:
            raise TypeError(f"{method.__name__}(): {name} must be {kind}, not {_shown(value)}") from None
        if name in TIMEOUTS and value is not None:
            check_timeout(value, f"{method.__name__}(): {name}")
        return value

    def settled(arguments: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        if len(arguments) > len(names):
            # Python says it better.
            return list(arguments), named
        given = [settle(name, value) for name, value in zip(names, arguments)]
        return given, {name: settle(name, value) if name in names else value for name, value in named.items()}

    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def call_async(self: Any, /, *arguments: Any, **named: Any) -> Any:
            given, rest = settled(arguments, named)
            return await method(self, *given, **rest)

        return call_async  # type: ignore[return-value]

    @wraps(method)
    def call(self: Any, /, *arguments: Any, **named: Any) -> Any:
        given, rest = settled(arguments, named)
        return method(self, *given, **rest)

    return call  # type: ignore[return-value]


def check_kind(value: Any, hint: Any, what: str) -> None:
    """Refuse what is not of the kind."""
    try:
        _check_of(hint)(value)
    except _WrongKindError:
        raise TypeError(f"{what} must be {_text(hint)}, not {_shown(value)}") from None


def check_buffer(value: Any, what: str, advice: str = "encode it") -> None:
    """Refuse what has no bytes in it, and say how it could have."""
    try:
        memoryview(value)
    except TypeError:
        raise TypeError(f"{what} must be bytes or None, not {_shown(value)}; {advice}") from None


def check_collection(value: Any, what: str) -> None:
    """Refuse what has no items; they themselves are not looked at."""
    if isinstance(value, _TEXTS) or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a list or the like, not {_shown(value)}")


def check_timestamp(value: Any, what: str) -> None:
    if not isinstance(value, Real):
        raise TypeError(f"{what} must be ms since 1970, not {_shown(value)}")
    if not is_int64(value):
        raise ValueError(f"{what} must be ms since 1970, not {value}")


def is_int64(value: Any) -> bool:
    return bool(-(2**63) <= value < 2**63)


def check_timeout(value: Any, what: str = "timeout") -> None:
    """Refuse what is no length of time."""
    if not isinstance(value, Real):
        raise TypeError(f"{what} must be a number, not {_shown(value)}")
    if not float(value) >= 0:
        raise ValueError(f"{what} must be a number from 0 on, not {value}")


def _check_of_parameter(method: Callable[..., Any], name: str) -> tuple[Check, str]:
    hint = inspect.signature(method).parameters[name].annotation
    if isinstance(hint, str):
        try:
            hint = eval(hint, inspect.unwrap(method).__globals__)
        except NameError:
            # Of a package that is an extra, and may not be there.
            hint = Any
    return _check_of(hint), _text(hint)


# Checks by hint


@cache
def _check_of(hint: Any) -> Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is types.UnionType or origin is Union:
        return _any_of([_check_of(each) for each in arguments])
    if origin is tuple:
        return _tuple(arguments)
    if isinstance(origin, type):
        return _check_of_generic(origin, arguments)
    if hint is None:
        return _of(types.NoneType)
    return _check_of_class(hint) if isinstance(hint, type) else _pass


def _check_of_generic(origin: type, arguments: tuple[Any, ...]) -> Check:
    if issubclass(origin, Mapping):
        return _mapping(*map(_check_of, arguments))
    if origin in (Iterable, Collection, Sequence, list):
        return _list(_check_of(arguments[0]))
    if issubclass(origin, frozenset):
        items = _list(_check_of(arguments[0]))
        return lambda value: frozenset(items(value))
    if origin is _CALLABLE:
        return _callable
    return _of(origin)


def _check_of_class(kind: type) -> Check:
    if kind is Any or kind is object or getattr(kind, "_is_protocol", False):
        return _pass
    if kind is int:
        return _int
    if kind is float:
        return _of(Real)
    if issubclass(kind, Enum):
        return _member(kind)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _named_tuple(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind)
    return _of(kind)


def _pass(value: Any) -> Any:
    return value


def _of(kind: type) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _WrongKindError
        return value

    return check


def _int(value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise _WrongKindError from None


def _callable(value: Any) -> Any:
    if not callable(value):
        raise _WrongKindError
    return value


def _any_of(checks: Sequence[Check]) -> Check:
    def check(value: Any) -> Any:
        for each in checks:
            try:
                return each(value)
            except _WrongKindError:
                continue
        raise _WrongKindError

    return check


def _mapping(key: Check, item: Check) -> Check:
    def check(value: Any) -> dict[Any, Any]:
        if not isinstance(value, Mapping):
            raise _WrongKindError
        return {key(each): item(value[each]) for each in value}

    return check


def _list(item: Check) -> Check:
    def check(value: Any) -> list[Any]:
        if isinstance(value, _TEXTS) or not isinstance(value, Iterable):
            raise _WrongKindError
        return [item(each) for each in value]

    return check


def _tuple(hints: tuple[Any, ...]) -> Check:
    if len(hints) == 2 and hints[1] is ...:
        items = _list(_check_of(hints[0]))
        return lambda value: tuple(items(value))
    checks = [_check_of(hint) for hint in hints]

    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, tuple) or len(value) != len(checks):
            raise _WrongKindError
        return tuple(each(item) for each, item in zip(checks, value))

    return check


def _member(kind: type[Enum]) -> Check:
    def check(value: Any) -> Enum:
        # Not by calling the class: what it does not know may become UNKNOWN there, which is for what brokers say.
        try:
            return kind._value2member_map_[value]
        except (KeyError, TypeError):
            raise _WrongKindError from None

    return check


def _named_tuple(kind: Any) -> Check:
    checks = _checks_of_fields(kind, kind._fields)
    fewest = len(kind._fields) - len(kind._field_defaults)

    def check(value: Any) -> Any:
        if not isinstance(value, tuple) or not fewest <= len(value) <= len(checks):
            raise _WrongKindError
        if type(value) is not tuple and not isinstance(value, kind):
            raise _WrongKindError
        return kind(*(each(item) for each, item in zip(checks.values(), value)))

    return check


def _dataclass(kind: Any) -> Check:
    checks = _checks_of_fields(kind, [each.name for each in dataclasses.fields(kind) if each.init])

    def check(value: Any) -> Any:
        if not isinstance(value, kind):
            raise _WrongKindError
        return dataclasses.replace(value, **{name: each(getattr(value, name)) for name, each in checks.items()})

    return check


def _checks_of_fields(kind: type, names: Iterable[str]) -> dict[str, Check]:
    hints = get_type_hints(kind)
    return {name: _check_of(hints[name]) for name in names}


# Words


def _text(hint: Any) -> str:
    """The hint as one would write it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is types.UnionType or origin is Union:
        return " | ".join(map(_text, arguments))
    if hint in (None, types.NoneType):
        return "None"
    if hint is ...:
        return "..."
    name = getattr(origin or hint, "__name__", str(hint))
    if not arguments or origin is _CALLABLE:
        return str(name)
    return f"{name}[{', '.join(map(_text, arguments))}]"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."
