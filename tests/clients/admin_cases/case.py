"""How a case is written and run."""

import asyncio
import itertools
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from levada.client.admin import Admin, NewTopic
from levada.client.errors import KafkaError, UnsupportedVersion
from levada.protocol.api import ApiKey

WAIT_SECONDS = 30.0
ABOUT_ACLS = (ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)


@dataclass(frozen=True, slots=True)
class Target:
    """A cluster of one broker, and what it serves."""

    bootstrap: str
    broker_id: int = 1
    unserved: Collection[ApiKey] = ()
    has_authorizer: bool = True
    counter: "itertools.count[int]" = field(default_factory=itertools.count)

    def fresh(self, what: str) -> str:
        """A name that no other case uses."""
        return f"{what}-{next(self.counter)}"


Body: TypeAlias = Callable[[Admin, Target], Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Case:
    body: Body
    needs: ApiKey | None

    @property
    def name(self) -> str:
        return self.body.__name__

    def run(self, target: Target) -> None:
        """What needs an API that the broker does not serve, or an authorizer that it does not have, must say so."""
        if self.needs is not None and self.needs in target.unserved:
            with pytest.raises(UnsupportedVersion, match=f"does not serve {self.needs.title}"):
                asyncio.run(self._run(target))
        elif self.needs in ABOUT_ACLS and not target.has_authorizer:
            with pytest.raises(KafkaError, match="SECURITY_DISABLED"):
                asyncio.run(self._run(target))
        else:
            asyncio.run(self._run(target))

    async def _run(self, target: Target) -> None:
        async with Admin(target.bootstrap) as admin, asyncio.timeout(WAIT_SECONDS):
            await self.body(admin, target)


class Cases(list[Case]):
    """The cases of one theme; used as a decorator on each."""

    def __call__(self, body: Body) -> Body:
        self.append(Case(body, None))
        return body

    def needing(self, api: ApiKey) -> Callable[[Body], Body]:
        """A case that is about an API which not every broker serves."""

        def add(body: Body) -> Body:
            self.append(Case(body, api))
            return body

        return add


async def create(admin: Admin, target: Target, what: str, partitions: int = 1, **configs: str) -> str:
    """A topic of its own for a case."""
    name = target.fresh(what)
    wanted = NewTopic(name, partitions, 1, configs={key.replace("_", "."): value for key, value in configs.items()})
    (await admin.create_topics([wanted])).raise_any()
    await known(admin, name)
    return name


async def known(admin: Admin, *topics: str) -> None:
    """Wait until the broker has heard from the controller of topics that were created."""

    async def are_listed() -> bool:
        return set(topics) <= set(await admin.list_topics())

    await until(f"{topics} are listed", are_listed)


async def until(what: str, is_so: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Wait for what a cluster does in its own time."""
    for _ in range(int(WAIT_SECONDS * 10)):
        if await is_so():
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"never so: {what}")
