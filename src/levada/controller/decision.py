"""What deciding takes and gives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from levada.controller.sessions import NOT_HEARD_OF, Liveness
from levada.metadata.records import MetadataRecord

MAX_REPLICAS = 32_767
"""What the protocol can say."""

Reply_co = TypeVar("Reply_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a request may leave open, and what may be asked for at all."""

    partitions: int = 1
    replication_factor: int = 1
    allows_deletion: bool = True
    max_replicas: int = MAX_REPLICAS
    """Of a partition."""
    node_id: int = -1
    """Of the broker that the controller lives in."""
    cluster_id: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    """The keys that the controller's own broker was started with: to these, lists are appended."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a decision may use beside the image: time and chance come in as values."""

    now_ms: int
    version: int
    """Of the API that the request came by."""
    defaults: Defaults
    new_id: Callable[[], bytes]
    below: Callable[[int], int]
    liveness: Liveness = NOT_HEARD_OF
    controller_epoch: int = 0


@dataclass(frozen=True, slots=True)
class ControllerDecision(Generic[Reply_co]):
    """Records that make it so, and the reply that may leave once they count."""

    reply: Reply_co
    records: Sequence[MetadataRecord] = field(default_factory=list)
