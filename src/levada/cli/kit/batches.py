"""Changes of very many things: a batch of them at a time, so that it can be seen and said how far they came."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from levada.cli.kit.refusals import Refused
from levada.cli.kit.terminal import progress

if TYPE_CHECKING:
    from levada.client.admin import Outcomes
    from levada.client.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")

BATCH: Final = 50


def in_batches(
    what: str, items: Sequence[K], change: "Callable[[Sequence[K]], Outcomes[K, V]]", batch: int = BATCH
) -> "Outcomes[K, V]":
    """What became of each item, under a bar; `what` completes "interrupted while ...".

    Where it ends early, by Ctrl-C or because no broker answers any more, the last line says what was done by then.
    """
    from levada.client.admin import Outcomes
    from levada.client.errors import KafkaError

    found: dict[K, V | KafkaError] = {}
    with progress(what, len(items)) as shown:
        try:
            for start in range(0, len(items), batch):
                outcomes = change(items[start : start + batch])
                found.update({**outcomes.done, **outcomes.errors})
                shown.to(len(found))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"interrupted while {what}: {_how_far(found, items)}") from None
        except KafkaError as error:
            raise Refused(f"{error}; {_how_far(found, items)}" if found else str(error)) from error
    return Outcomes({item: found[item] for item in items})


def _how_far(found: "Mapping[K, V | KafkaError]", items: Sequence[K]) -> str:
    return f"{len(found)} of {len(items)} were seen to, the rest may or may not have been done"
