"""The user's objects that see each record on its way, and each outcome.

One of a producer may have `configure(options)`, `on_send(record) -> record`, `on_acknowledgement(metadata, error)` and
`close()`; one of a consumer `configure`, `on_consume(records) -> records`, `on_commit(offsets)` and `close`. What it
does not have is left out. What it raises is logged and goes no further: the next gets what the last good one returned.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from levada.client.errors import ConfigurationError

_log = logging.getLogger("levada.client")
_T = TypeVar("_T")


class _Step(NamedTuple):
    name: str
    """Of the interceptor's class."""
    call: str
    method: Callable[..., Any]


class Interceptors:
    """A chain of interceptors; false where there is none."""

    def __init__(self, given: Iterable[object], options: object = None) -> None:
        """`given` has objects, or classes to make them of; each is configured with `options` at once."""
        self._chain: Sequence[object] = [_made(item) for item in given]
        self._on_send = self._having("on_send")
        self._on_acknowledgement = self._having("on_acknowledgement")
        self._on_consume = self._having("on_consume")
        self._on_commit = self._having("on_commit")
        self._tell(self._having("configure"), options)

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_send(self, record: _T) -> _T:
        """The record that is sent instead, before it is serialized."""
        return self._through(self._on_send, record)

    def on_acknowledgement(self, metadata: object, error: BaseException | None) -> None:
        """A record was acknowledged, or has failed for good."""
        self._tell(self._on_acknowledgement, metadata, error)

    def on_consume(self, records: _T) -> _T:
        """The records that `poll` returns instead."""
        return self._through(self._on_consume, records)

    def on_commit(self, offsets: object) -> None:
        """Offsets were committed."""
        self._tell(self._on_commit, offsets)

    def close(self) -> None:
        self._tell(self._having("close"))

    def _having(self, call: str) -> Sequence[_Step]:
        named = ((type(one).__name__, getattr(one, call, None)) for one in self._chain)
        return [_Step(name, call, method) for name, method in named if method is not None]

    def _through(self, steps: Sequence[_Step], value: _T) -> _T:
        for step in steps:
            try:
                changed = step.method(value)
                if changed is None:
                    raise TypeError("nothing was returned")
            except Exception as error:
                _failed(step, error)
            else:
                value = changed
        return value

    def _tell(self, steps: Sequence[_Step], *arguments: object) -> None:
        for step in steps:
            try:
                step.method(*arguments)
            except Exception as error:
                _failed(step, error)


def _made(item: object) -> object:
    if not isinstance(item, type):
        return item
    try:
        return item()
    except Exception as error:
        raise ConfigurationError(f"interceptor.classes: {item.__name__} could not be made: {error!r}") from error


def _failed(step: _Step, error: Exception) -> None:
    _log.warning("an interceptor failed: name=%s call=%s error=%r", step.name, step.call, error, exc_info=error)
