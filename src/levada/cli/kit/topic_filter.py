"""A list of topics as Kafka's tools take it: a regular expression, or names between commas."""

import re

from levada.cli.kit.refusals import Refused

INTERNAL = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class TopicFilter:
    """Names that the expression describes from end to end; a comma separates alternatives.

    >>> wanted = TopicFilter("orders, pay.*")
    >>> wanted.allows("payments"), wanted.allows("my-orders")
    (True, False)
    """

    def __init__(self, text: str) -> None:
        # Property files bring quotes along.
        self.text = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(self.text)
        except re.error as error:
            raise Refused(f"{self.text} is an invalid regex: {error}") from None

    def allows(self, topic: str, *, exclude_internal: bool = False) -> bool:
        return self._pattern.fullmatch(topic) is not None and not (exclude_internal and topic in INTERNAL)
