"""What became of each item that an admin call was about."""

from collections.abc import Iterator, Mapping
from typing import TypeVar

from levada.client.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")


class Outcomes(Mapping[K, V]):
    """A result per item, in the order the items were given; to take the result of one that failed raises its error.

    >>> outcomes = Outcomes({"orders": 3, "secret": KafkaError("secret: not allowed")})
    >>> outcomes["orders"]
    3
    >>> list(outcomes)
    ['orders', 'secret']
    >>> outcomes.done
    {'orders': 3}
    >>> outcomes.errors
    {'secret': KafkaError('secret: not allowed')}
    >>> outcomes["secret"]
    Traceback (most recent call last):
        ...
    levada.model.errors.KafkaError: secret: not allowed
    >>> outcomes.raise_any()
    Traceback (most recent call last):
        ...
    levada.model.errors.KafkaError: secret: not allowed
    """

    __slots__ = ("_each",)

    def __init__(self, each: Mapping[K, V | KafkaError]) -> None:
        self._each = dict(each)

    def __getitem__(self, item: K) -> V:
        found = self._each[item]
        if isinstance(found, KafkaError):
            raise found
        return found

    def __iter__(self) -> Iterator[K]:
        return iter(self._each)

    def __len__(self) -> int:
        return len(self._each)

    def __contains__(self, item: object) -> bool:
        return item in self._each

    def __repr__(self) -> str:
        return f"Outcomes({self._each!r})"

    @property
    def done(self) -> dict[K, V]:
        """The results of the items that did not fail."""
        return {item: found for item, found in self._each.items() if not isinstance(found, KafkaError)}

    @property
    def errors(self) -> dict[K, KafkaError]:
        """Why each of the others failed."""
        return {item: found for item, found in self._each.items() if isinstance(found, KafkaError)}

    def raise_any(self) -> None:
        """Raise the first error, if there is one."""
        for error in self.errors.values():
            raise error
