"""A piece of Python source in the making: lines, indentation, and the constants the code closes over."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class GeneratedSource:
    """Lines of one generated function."""

    def __init__(self, scope: dict[str, Any]) -> None:
        self.scope = scope
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        before = len(self._lines)
        yield
        if len(self._lines) == before:
            self.line("pass")
        self._depth -= 1

    def name(self, kind: str) -> str:
        """A name not used before in this compilation."""
        self.scope["_names"] = number = self.scope.get("_names", 0) + 1
        return f"{kind}{number}"

    def constant(self, kind: str, value: Any) -> str:
        """Make a value visible to the generated code and say under which name."""
        name = self.name(kind)
        self.scope[name] = value
        return name

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
