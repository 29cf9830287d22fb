"""What is to go wrong in a simulated run: how often by chance, or exactly when."""

from dataclasses import dataclass, fields
from typing import Final, Literal, TypeAlias, get_args

Kind: TypeAlias = Literal["crash", "power_loss", "kill", "cut", "reset", "drop", "delay", "disk_errors"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Step:
    """One fault at a certain time of the run."""

    at: float
    """Virtual seconds since the run began."""
    kind: Kind
    target: str | None = None
    """The process that is killed, or whose link is disturbed; one by chance if none is named."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.kind!r} is no kind of fault: {', '.join(KINDS)}")


@dataclass(frozen=True, slots=True, repr=False)
class Faults:
    """How often each kind comes, on average in a minute of virtual time; the seed decides when and to whom.

    >>> Faults(crash=2, cut=4)
    Faults(crash=2, cut=4)
    """

    crash: float = 0.0
    """The broker's process dies, often between two of its writes, and starts again."""
    power_loss: float = 0.0
    """The broker's machine loses its power, and what was not flushed: as with Kafka, acknowledged records can go."""
    kill: float = 0.0
    """One of the processes that `Cluster.start` began dies, and starts again from its beginning."""
    cut: float = 0.0
    """Nothing passes between the broker and a process for a while."""
    reset: float = 0.0
    """All connections between the broker and a process break, with what is on the wire."""
    drop: float = 0.0
    """For a while a process's requests arrive and no answer comes back; then its connections break."""
    delay: float = 0.0
    """Everything between the broker and a process takes up to a second for a while."""
    disk_errors: float = 0.0
    """For a while some of the broker's writes fail; then it is started again."""
    lasting: tuple[float, float] = (0.1, 5.0)
    """How many seconds such a while takes, and a process that died stays away: at least and at most."""
    steps: tuple[Step, ...] = ()
    """Faults that come at their time, whatever the chances say."""

    def __post_init__(self) -> None:
        for kind in KINDS:
            if self.rate(kind) < 0:
                raise ValueError(f"{kind} is a number of faults in a minute, not {self.rate(kind)}")

    def __repr__(self) -> str:
        given = [(each.name, getattr(self, each.name)) for each in fields(self)]
        changed = [f"{name}={value!r}" for name, value in given if value != getattr(NO_FAULTS, name)]
        return f"Faults({', '.join(changed)})"

    def rate(self, kind: Kind) -> float:
        rate: float = getattr(self, kind)
        return rate


NO_FAULTS: Final = Faults()
"""Nothing goes wrong but what the test itself does."""

STORM: Final = Faults(crash=3, kill=3, cut=4, reset=6, drop=4, delay=4)
"""Much goes wrong that clients are made to survive without loss."""
