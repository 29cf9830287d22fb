"""One life of a simulated process, from its start to its crash, and the context that marks what belongs to it."""

from contextvars import Context, ContextVar


class HostDied(BaseException):
    """Raised by the doors of a process that has crashed.

    Not an Exception: code that survives every error must not survive its own death.
    """


class Incarnation:
    """A process as long as it lives. What runs in its context is dropped by the loop once it is dead."""

    __slots__ = ("_context", "alive", "host", "number", "paused", "process")

    def __init__(self, host: str, process: str, number: int) -> None:
        self.host = host
        self.process = process
        self.number = number
        self.alive = True
        self.paused = False
        """As by SIGSTOP: the loop keeps back what belongs to it."""
        self._context = Context()
        self._context.run(CURRENT.set, self)

    def __repr__(self) -> str:
        return f"{self.place}#{self.number}"

    @property
    def place(self) -> str:
        """What links lead to: the host, or the process, if it has a name that tells it from others of its host."""
        return f"{self.host}{self.process and '/'}{self.process}"

    def context(self) -> Context:
        """A fresh context in which tasks, timers and callbacks belong to this incarnation."""
        return self._context.copy()

    def check(self) -> None:
        if not self.alive:
            raise HostDied(repr(self))


CURRENT: ContextVar[Incarnation | None] = ContextVar("levada_incarnation", default=None)
