"""The examples in the admin client's docstrings, run as written: with await."""

import ast
import asyncio
import contextlib
import doctest
import importlib
import inspect
import io
import pkgutil
import sys
from typing import Any

import levada.client.admin
from levada.client.admin import Admin, NewTopic
from levada.client.errors import UnsupportedVersion
from levada.client.types import TopicPartition
from tests.clients.admin_cases.case import Target, known
from tests.clients.admin_cases.surroundings import produce

FIRST = ("alter_client_quotas",)
"""Whose examples others go on from."""


def all_examples() -> list[doctest.DocTest]:
    """Of every module, in a fixed order."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [
        importlib.import_module(f"{levada.client.admin.__name__}.{found.name}")
        for found in pkgutil.iter_modules(levada.client.admin.__path__)
    ]
    found = [test for module in modules for test in finder.find(module) if test.examples]
    return sorted(found, key=lambda test: (not test.name.endswith(FIRST), test.name))


async def prepare(admin: Admin, target: Target) -> None:
    """What the examples take for granted."""
    (await admin.create_topics([NewTopic("orders", 3), NewTopic("payments", 3)])).raise_any()
    await known(admin, "orders", "payments")
    produce(target, "orders", *[b"a record"] * 1_207)
    produce(target, "payments", *[b"a record"] * 42)
    (await admin.alter_group_offsets("billing", {TopicPartition("orders", 0): 1_207})).raise_any()


def run_examples(tests: list[doctest.DocTest], target: Target) -> list[str]:
    """What came out otherwise than the docstrings say."""

    async def run() -> list[str]:
        async with Admin(target.bootstrap) as admin:
            await prepare(admin, target)
            return [line for test in tests for line in await _differences(test, admin, target)]

    return asyncio.run(run())


async def _differences(test: doctest.DocTest, admin: Admin, target: Target) -> list[str]:
    names: dict[str, Any] = {**test.globs, "admin": admin, "bootstrap": target.bootstrap}
    names |= {name: getattr(levada.client.admin, name) for name in levada.client.admin.__all__}
    names["TopicPartition"] = TopicPartition
    wrong = []
    for example in test.examples:
        try:
            said = await _run(example.source, names)
        except UnsupportedVersion:
            # Not every broker can do everything; the cases look to it that this one should not.
            break
        except Exception as error:
            if not target.has_authorizer and "SECURITY_DISABLED" in str(error):
                break
            said = f"{type(error).__module__}.{type(error).__name__}: {error}\n"
            if example.exc_msg is not None and doctest.OutputChecker().check_output(example.exc_msg, said, 0):
                continue
        if not doctest.OutputChecker().check_output(example.want, said, 0):
            wrong.append(f"{test.name}: {example.source}wants {example.want!r} and gets {said!r}")
    return wrong


async def _run(source: str, names: dict[str, Any]) -> str:
    """What a statement prints, as it would be typed into `python -m asyncio`."""
    code = compile(source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        before, sys.displayhook = sys.displayhook, sys.__displayhook__
        try:
            result = eval(code, names)
            if code.co_flags & inspect.CO_COROUTINE:
                await result
        finally:
            sys.displayhook = before
    return printed.getvalue()
