"""Schemas that values were written with, found by their ids and kept by a Python worker of Spark; runs in workers."""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Final

from levada.spark.rows.arrow_values import told
from levada.spark.rows.problems import RowsError
from levada.spark.rows.registry.address import Registry
from levada.spark.rows.registry.requests import Invalid, NotThere, RegistryAway, TooLarge, Unreadable
from levada.spark.rows.registry.subjects import WORDS, Registered, schema_by_id
from levada.spark.waits import waits

MOST_KEPT: Final = 500
UNUSABLE_S: Final = 10.0
"""How long a schema that is not there, or cannot be used, is not asked for again."""
SAY_S: Final = 30.0
OVER: Final = object()

log = logging.getLogger(__name__)


class Unusable(ValueError):
    """A schema that makes dead letters of its values; the text says why."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What was made of a schema, or why there is nothing."""

    made: Any
    problem: str | None
    until: float
    """When it is to be asked for again."""


class WriterSchemas:
    """What was made of the schemas used last, at most so many; a Spark worker may use it in several threads."""

    def __init__(
        self,
        most: int = MOST_KEPT,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._most = most
        self._clock = clock
        self._sleep = sleep
        self._lock = Lock()
        self._said_at: float | None = None

    def of(self, registry: Registry, schema_id: int, kind: str, make: Callable[[Registered], Any]) -> Any:
        """What `make` makes of the schema, once; Unusable for its values' dead letters.

        RowsError ends the query: the registry refuses the login, or was away for longer than is waited for.
        """
        key = (registry, kind, schema_id)
        with self._lock:
            kept = self._kept.get(key)
            if kept is not None:
                self._kept.move_to_end(key)
        if kept is None or kept.until <= self._clock():
            kept = self._found(registry, schema_id, kind, make)
            with self._lock:
                self._kept[key] = kept
                self._kept.move_to_end(key)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        if kept.problem is not None:
            raise Unusable(kept.problem)
        return kept.made

    def _found(self, registry: Registry, schema_id: int, kind: str, make: Callable[[Registered], Any]) -> Kept:
        try:
            schema = self._waited_for(registry, schema_id, kind)
        except NotThere:
            return self._unusable(f"the registry has no schema {schema_id}, or none of those that it refers to")
        except (Invalid, Unreadable) as error:
            return self._unusable(f"the schema {schema_id} of the value cannot be used: {error}")
        except TooLarge:
            return self._unusable(f"the schema {schema_id} is too large")
        if schema.kind != kind:
            found = WORDS.get(schema.kind, schema.kind)
            return self._unusable(f"the schema {schema_id} of the value is {found}, not {WORDS[kind]}")
        try:
            return Kept(make(schema), None, float("inf"))
        except Exception as error:  # Whatever is registered: its values are at fault, and no others.
            reason = str(error) if isinstance(error, RowsError) else told(error)
            return self._unusable(f"the schema {schema_id} of the value cannot be used: {reason}")

    def _unusable(self, problem: str) -> Kept:
        return Kept(None, problem, self._clock() + UNUSABLE_S)

    def _waited_for(self, registry: Registry, schema_id: int, kind: str) -> Registered:
        """However often it takes: values must not become dead letters because a registry is away."""
        deadline = self._clock() + registry.wait_s
        pauses = waits(registry.wait_s, self._sleep, self._clock)
        while True:
            try:
                return schema_by_id(registry, schema_id, kind)
            except RegistryAway as error:
                left_s = deadline - self._clock()
                if left_s > 0:
                    self._say(f"waiting for the schema registry, {left_s:.0f} s at most: {error}")
                if next(pauses, OVER) is OVER:
                    raise RowsError(
                        f"the schema registry was away for {registry.wait_s:g} s (registry_wait): {error}"
                    ) from None

    def _say(self, text: str) -> None:
        now = self._clock()
        if self._said_at is None or now - self._said_at >= SAY_S:
            self._said_at = now
            log.warning(text)


@cache
def writer_schemas() -> WriterSchemas:
    """Those of this process."""
    return WriterSchemas()
