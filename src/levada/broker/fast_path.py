"""Requests that repeat an earlier one in all but the numbers that must change: known by their bytes, not decoded.

A client asks for the same partition again and again. Its requests differ in the correlation id and in one field: the
offset to fetch from, or the records. What stands before that field is looked up as it is, client id and topic included.
Equal bytes mean equal requests, so whatever the decoder and the handler would find out about them was found out before.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Final, Generic, TypeVar

from levada.broker.broker import Broker
from levada.broker.metrics import ApiMetrics, ApisCalled
from levada.broker.partition import Partition
from levada.broker.request_templates import RequestTemplate
from levada.broker.route import Request
from levada.model.errors import ApiError
from levada.model.topics import INTERNAL_TOPICS
from levada.net.reply import Reply
from levada.protocol.api import ApiKey, request_class
from levada.protocol.codec import encode_bytes
from levada.protocol.declare import NO_UUID, Message
from levada.protocol.headers import encode_request_header, encode_response_header, response_has_tags
from levada.protocol.runtime import uvarint

MAX_KNOWN: Final = 4096
"""Of one API in one version. A client that makes up requests to fill it gains nothing: the oldest give way."""

MAX_KEY_BYTES: Final = 1024
"""What is learned of a longer request is not worth its memory: names are short, and unknown tags can be of any size."""

MAX_KNOWN_BYTES: Final = 4 << 20
"""Of one API in one version, as `_remember` counts them."""

ENTRY_BYTES: Final = 1024
"""About what an entry takes beside the bytes of its key."""

AFTER_CORRELATION_ID: Final = 8

_ANY_CORRELATION_ID: Final = 0
_NAME: Final = "~"
_ID: Final = bytes(range(0xE0, 0xF0))

M = TypeVar("M", bound=Message)
R = TypeVar("R")
Known = TypeVar("Known")


class FastPath(ABC, Generic[M, R, Known]):
    """Those of one API in one version. What is known of them holds until the cluster's metadata changes."""

    api: ClassVar[ApiKey]
    versions: ClassVar[range]

    def __init__(self, broker: Broker, apis: ApisCalled, version: int) -> None:
        self.version = version
        self._broker = broker
        self._now_ms = broker.clock.now_ms
        self._perf_ns = broker.clock.perf_ns
        self._apis = apis
        self._metrics: ApiMetrics | None = None
        """Of the API, once there was a request to learn from."""
        self._is_flexible = version >= request_class(self.api).flexible_since
        self._image = broker.image
        self._known: dict[bytes, Known] = {}
        self._known_bytes = 0

    @abstractmethod
    def answer(self, frame: memoryview, started_ns: int) -> Reply:
        """The reply to a request that is known and can be answered at once, None for any other.

        A ApiError says why a request was refused; `refuse` makes the response of it.
        """

    @abstractmethod
    def refuse(self, message: M, request: Request, error: ApiError) -> R:
        """The response to a request that `answer` has refused."""

    @abstractmethod
    def learn(self, frame: memoryview, client_id: str | None, message: M) -> None:
        """Take note of a request that was decoded, so that the next of its kind need not be."""

    # How a request looks

    def _template_of(self, sample: M, mark: bytes, tail: bytes = b"") -> RequestTemplate:
        """Taken from a request with the topic of `sample_topic`: the mark stands where the prefix ends."""
        encoded = self._encoded(sample, "")
        end = encoded.index(mark)
        topic_at = encoded.find(_NAME.encode()) - 1
        if topic_at < 0:
            return RequestTemplate(end, 0, False, self._is_flexible, tail)
        return RequestTemplate(topic_at, end - topic_at - encoded[topic_at], True, self._is_flexible, tail)

    def _encoded(self, request: M, client_id: str) -> bytes:
        header = encode_request_header(self.api, self.version, _ANY_CORRELATION_ID, client_id)
        return header + encode_bytes(request, self.version)

    def _encoded_response(self, response: R) -> bytes:
        """What follows the correlation id."""
        has_tags = response_has_tags(self.api, self.version)
        return encode_response_header(_ANY_CORRELATION_ID, has_tags=has_tags)[4:] + encode_bytes(response, self.version)

    def _size_field(self, size: int) -> bytes:
        """What stands before so many bytes of records."""
        return uvarint(size + 1) if self._is_flexible else size.to_bytes(4, "big")

    # What is known

    def _remember(self, key: bytes, known: Known) -> None:
        self._known_bytes += len(key) + ENTRY_BYTES
        while self._known and (len(self._known) >= MAX_KNOWN or self._known_bytes > MAX_KNOWN_BYTES):
            oldest = next(iter(self._known))
            del self._known[oldest]
            self._known_bytes -= len(oldest) + ENTRY_BYTES
        self._known[key] = known
        self._metrics = self._apis[self.api]

    def _forget_if_outdated(self) -> None:
        if self._image is not self._broker.image:
            self._image = self._broker.image
            self._known.clear()
            self._known_bytes = 0

    def _partition(self, name: str, topic_id: bytes, index: int) -> Partition | None:
        """The partition that a request means, if it is led from here and all parts of the broker agree on it."""
        try:
            partition = self._broker.partition(name, topic_id, index)
        except ApiError:
            return None
        topic = self._broker.image.topics.get(partition.topic)
        if topic is None or topic.topic_id != partition.topic_id or partition.topic in INTERNAL_TOPICS:
            return None
        return partition


def sample_topic(*, goes_by_name: bool) -> tuple[str, bytes]:
    """A name and an id that are found again in an encoded request."""
    return (_NAME, NO_UUID) if goes_by_name else ("", _ID)
