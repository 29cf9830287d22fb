"""One broker as a client sees it: its connection, opened when needed, and the versions it speaks."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from levada.client.cluster.contact import HANGS_UP, NOT_KAFKA, SAYS_NOTHING, TAKES_NO_CONNECTION, connection_fault
from levada.client.cluster.view import Address
from levada.client.cluster.waiting import Backoff, background, shared
from levada.client.errors import Disconnected, KafkaError, TimedOut, UnsupportedVersion
from levada.client.options import Options
from levada.model.error_codes import ErrorCode
from levada.net.channel import MAX_RESPONSE_BYTES, Channel, ChannelClosed, NotAResponse
from levada.protocol.api import ApiKey, stable_versions
from levada.protocol.declare import Message, Request
from levada.protocol.errors import CannotEncode, CodecError
from levada.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from levada.world.world import ClientWorld

T = TypeVar("T")

SOFTWARE_NAME = "levada"

try:
    SOFTWARE_VERSION = version("levada")
except PackageNotFoundError:
    SOFTWARE_VERSION = "0"

API_VERSIONS_VERSIONS = (4, 3, 0)
FIRST_RESPONSE_BYTES = 1 << 20
"""What is no broker begins with a text, which reads as a much larger size."""


TELLING_MS = 500
"""An attempt that has waited for less says nothing of its own; what the one before met does."""


class Node:
    """Calls to one address. A connection that fails is opened again by the next call, after a pause."""

    def __init__(self, world: ClientWorld, options: Options, address: Address) -> None:
        self.address = address
        self.features: Mapping[str, int] = {}
        """The finalized level of each feature, as the broker told on connecting."""
        self.calls = 0
        """How many are under way."""
        self._world = world
        self._client_id: str = options["client.id"] or SOFTWARE_NAME
        self._request_timeout_ms: int = options["request.timeout.ms"]
        self._max_idle_ms: int = options["connections.max.idle.ms"]
        self._setup = Backoff(
            world.entropy,
            options["socket.connection.setup.timeout.ms"],
            options["socket.connection.setup.timeout.max.ms"],
        )
        self._backoff = Backoff(world.entropy, options["reconnect.backoff.ms"], options["reconnect.backoff.max.ms"])
        self._send_bytes: int = options["send.buffer.bytes"] if "send.buffer.bytes" in options.given else -1
        self._receive_bytes: int = options["receive.buffer.bytes"] if "receive.buffer.bytes" in options.given else -1
        self._failures = 0
        self._retry_at_ms = 0.0
        self._used_at_ms = 0
        self._throttled_until_ms = 0
        self._channel: Channel | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._connecting: asyncio.Task[Channel] | None = None
        self._begun_at_ms: int | None = None
        self._is_accepted = False
        self._fault = ""
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """By this client, for good."""
        return self._is_closed

    @property
    def is_connected(self) -> bool:
        return self._channel is not None and self._channel.is_open

    @property
    def is_throttled(self) -> bool:
        return self._throttled_until_ms > self._world.clock.monotonic_ms()

    @property
    def is_in_disgrace(self) -> bool:
        """Whether it failed a moment ago, so that another broker is the better choice."""
        return self._failures > 0 and not self.is_connected

    async def call(
        self, request: Request[T], *, timeout_ms: float | None = None, at_least: int = 0, at_most: int | None = None
    ) -> T:
        """The answer to a request, in the newest version that both sides and the bounds allow."""
        await self.connect()
        chosen = self.version_of(request.api_key, at_least, at_most)
        try:
            return await self.post(request, chosen, timeout_ms or self._request_timeout_ms)
        except (ChannelClosed, CodecError) as error:
            raise self.lost(error) from error

    def lost(self, error: Exception) -> Disconnected:
        """What it means to the caller that an answer will not come."""
        if isinstance(error, ChannelClosed) and not isinstance(error, NotAResponse):
            return Disconnected(f"lost the connection to {self.address}: {error}")
        return Disconnected(f"{self.address} sent a response that cannot be read: {error}")

    def post(self, request: Request[T], chosen: int, timeout_ms: float) -> "asyncio.Future[T]":
        """Send on the open connection without waiting; the future ends in an answer, ChannelClosed or TimedOut.

        After the time is up the connection is given up, with all its calls.
        """
        channel = self._channel
        if channel is None:
            raise Disconnected(f"there is no connection to {self.address}")
        try:
            future = channel.send(request, chosen)
        except ChannelClosed as error:
            raise Disconnected(f"the connection to {self.address} is closed") from error
        except CannotEncode as error:
            if error.__cause__ is not None:
                # A value that no version can hold, such as text for a number.
                raise KafkaError(f"what was given cannot be sent: {error}") from error
            raise UnsupportedVersion(f"the broker at {self.address} is too old for this: {error}") from error
        self.calls += 1
        timer = asyncio.get_running_loop().call_later(timeout_ms / 1_000, _expire, channel, future, self.address)
        future.add_done_callback(partial(self._answered, timer))
        return future

    def post_without_answer(self, request: Message, chosen: int) -> None:
        """Send what a broker does not answer: Produce with acks=0."""
        channel = self._channel
        if channel is None:
            raise Disconnected(f"there is no connection to {self.address}")
        try:
            channel.send_without_answer(request, chosen)
        except ChannelClosed as error:
            raise Disconnected(f"the connection to {self.address} is closed") from error

    def is_drained(self, on_drained: Callable[[], None]) -> bool:
        """Whether the connection takes more than it has to send still; if not, `on_drained` is called when it does."""
        channel = self._channel
        if channel is None or not channel.is_congested:
            return True
        channel.on_drained = on_drained
        return False

    def _answered(self, timer: asyncio.TimerHandle, future: "asyncio.Future[T]") -> None:
        timer.cancel()
        self.calls -= 1
        self._used_at_ms = self._world.clock.monotonic_ms()
        if not future.cancelled() and future.exception() is None:
            throttle_ms = getattr(future.result(), "throttle_time_ms", 0)
            if throttle_ms:
                self._throttled_until_ms = self._used_at_ms + throttle_ms

    async def connect(self) -> Channel:
        """The open channel, or a new one; all who wait share one attempt."""
        if self._throttled_until_ms:
            await self._throttle()
        channel = self._channel
        if channel is not None and channel.is_open and not self._is_stale():
            return channel
        if self._is_closed:
            raise Disconnected(f"the connection to {self.address} was closed by this client")
        if self._connecting is None:
            self._connecting = background(self._connect())
            self._connecting.add_done_callback(self._connected)
        return await shared(self._connecting)

    def version_of(self, api_key: int, at_least: int = 0, at_most: int | None = None) -> int:
        """The version to speak; UnsupportedVersion when there is none in common."""
        ours = stable_versions(api_key)
        if api_key not in self._versions:
            raise UnsupportedVersion(f"the broker at {self.address} does not serve {ApiKey(api_key).title}")
        lowest, highest = self._versions[api_key]
        chosen = min(ours[-1], highest) if at_most is None else min(ours[-1], highest, at_most)
        if chosen < max(ours[0], lowest, at_least):
            wanted = f"{max(ours[0], at_least)} to {ours[-1] if at_most is None else at_most}"
            raise UnsupportedVersion(
                f"{ApiKey(api_key).title} is wanted in version {wanted}, "
                f"and the broker at {self.address} serves {lowest} to {highest}"
            )
        return chosen

    def what_is_missing(self) -> str:
        """What a connection that is being made still waits for, or before that why the last attempt failed."""
        if self._begun_at_ms is None:
            return self._fault or f"there is no connection to {self.address} yet"
        if self._fault and self._world.clock.monotonic_ms() - self._begun_at_ms < TELLING_MS:
            return self._fault
        seconds = (self._world.clock.monotonic_ms() - self._begun_at_ms) / 1_000
        text = SAYS_NOTHING if self._is_accepted else TAKES_NO_CONNECTION
        return text.format(address=self.address, seconds=seconds)

    def close(self) -> None:
        self._is_closed = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._drop()

    def _connected(self, task: "asyncio.Task[Channel]") -> None:
        self._connecting = None
        if not task.cancelled():
            # The calls that waited have the error; there may be none, and then asyncio would complain.
            task.exception()

    async def _connect(self) -> Channel:
        self._drop()
        self._begun_at_ms = None
        channel: Channel | None = None
        pause_ms = self._retry_at_ms - self._world.clock.monotonic_ms()
        if pause_ms > 0:
            await asyncio.sleep(pause_ms / 1_000)
        self._begun_at_ms = self._world.clock.monotonic_ms()
        self._is_accepted = False
        setup_ms = self._setup.pause_ms(self._failures + 1)
        try:
            async with asyncio.timeout(setup_ms / 1_000):
                channel = await Channel.connect(self._world.net, self.address.host, self.address.port, self._client_id)
                self._is_accepted = True
                channel.set_buffers(self._send_bytes, self._receive_bytes)
                await self._negotiate(channel)
        except BaseException as error:
            if channel is not None:
                channel.close()
            self._fail()
            why = self._why(error)
            self._fault = str(why)
            self._begun_at_ms = None
            raise why from error
        self._channel = channel
        self._failures = 0
        self._retry_at_ms = 0.0
        self._used_at_ms = self._world.clock.monotonic_ms()
        return channel

    async def _negotiate(self, channel: Channel) -> None:
        """Ask for the versions served; a broker too old for the question says so in the oldest form."""
        channel.limit_responses(FIRST_RESPONSE_BYTES)
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION)
        for wanted in API_VERSIONS_VERSIONS:
            response: ApiVersionsResponse = await channel.send(request, wanted)
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
                break
        if response.error_code != ErrorCode.NONE:
            raise Disconnected(f"{self.address} refused to list its API versions: error {response.error_code}")
        channel.limit_responses(MAX_RESPONSE_BYTES)
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        self.features = {each.name: each.max_version_level for each in response.finalized_features}

    def _why(self, error: BaseException) -> BaseException:
        """What to tell the calls that wait for a connection."""
        if isinstance(error, KafkaError):
            return error
        if isinstance(error, TimeoutError):
            return Disconnected(self.what_is_missing())
        if isinstance(error, NotAResponse | CodecError):
            return Disconnected(NOT_KAFKA.format(address=self.address))
        if isinstance(error, ChannelClosed) or (isinstance(error, OSError) and self._is_accepted):
            return Disconnected(HANGS_UP.format(address=self.address))
        if isinstance(error, OSError):
            return Disconnected(connection_fault(error, self.address, self.address.host))
        return error

    async def _throttle(self) -> None:
        pause_ms = self._throttled_until_ms - self._world.clock.monotonic_ms()
        self._throttled_until_ms = 0
        if pause_ms > 0:
            await asyncio.sleep(pause_ms / 1_000)

    def _is_stale(self) -> bool:
        """Whether nothing was said for so long that a box on the way may have forgotten the connection."""
        idle_ms = self._world.clock.monotonic_ms() - self._used_at_ms
        return not self.calls and 0 <= self._max_idle_ms < idle_ms

    def _fail(self) -> None:
        self._failures += 1
        pause_ms = self._backoff.pause_ms(self._failures)
        self._retry_at_ms = self._world.clock.monotonic_ms() + pause_ms

    def _drop(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def _expire(channel: Channel, future: "asyncio.Future[T]", address: Address) -> None:
    """An answer that is late is not told from a later one's by a peer that stopped answering in order."""
    if not future.done():
        future.set_exception(
            TimedOut(f"{address} did not answer within request.timeout.ms; it may be overloaded, or cut off")
        )
    channel.close()
