"""The way to the active controller when it is another broker."""

import asyncio
from hmac import compare_digest
from typing import TypeVar, cast

from levada.metadata.door import Door, Member
from levada.metadata.image import Image
from levada.model.error_codes import ErrorCode
from levada.model.errors import ApiError, ControllerLost, NotController
from levada.model.hashes import uuid_to_text
from levada.net.channel import Channel, ChannelClosed
from levada.protocol.api import response_class
from levada.protocol.codec import decode_prefix, encode_bytes
from levada.protocol.declare import Request
from levada.protocol.errors import CodecError
from levada.protocol.headers import decode_response_header, encode_request_header, response_has_tags
from levada.protocol.messages.envelope import EnvelopeRequest
from levada.world.net import Net

Reply = TypeVar("Reply")

CONNECT_SECONDS = 3.0
BROKER_CLIENT = "levada-broker"
LOOK_SECONDS = 1.0
"""While an answer is waited for, whether the controller is still the one that was asked."""


def broker_client_id(node_id: int, incarnation: str) -> str:
    """By what a controller knows a broker: no client is told of the incarnation."""
    return f"{BROKER_CLIENT} {node_id} {incarnation}"


def names_broker(client_id: str | None, image: Image) -> bool:
    """Whether it is that of a registered broker."""
    words = (client_id or "").split(" ")
    if len(words) != 3 or words[0] != BROKER_CLIENT or not words[1].isdecimal():
        return False
    broker = image.brokers.get(int(words[1]))
    return broker is not None and compare_digest(uuid_to_text(broker.incarnation_id), words[2])


class ControllerChannel:
    """One connection, made anew when it breaks or another controller is elected. Answers come in the order of calls."""

    def __init__(self, net: Net, door: Door, client_id: str) -> None:
        self._net = net
        self._door = door
        self._client_id = client_id
        self._channel: Channel | None = None
        self._controller: Member | None = None
        self._connecting = asyncio.Lock()

    @property
    def controller_id(self) -> int | None:
        """Of the broker that this one is connected to as its controller."""
        is_open = self._channel is not None and self._channel.is_open
        return self._controller.node_id if is_open and self._controller is not None else None

    async def call(self, request: Request[Reply], version: int, seconds: float) -> Reply:
        """NotController if there is none to be asked, ControllerLost if the one that was asked does not answer."""
        channel = await self._connected()
        try:
            answer = channel.send(request, version)
        except ChannelClosed as error:
            self._forget(channel)
            raise NotController("The controller has closed the connection.") from error
        try:
            reply = await self._answer(answer, seconds)
        except (OSError, ChannelClosed, TimeoutError) as error:
            self._forget(channel)
            raise ControllerLost(f"The controller does not answer: {str(error) or 'it takes too long'}.") from error
        if getattr(reply, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
            self._forget(channel)
            raise NotController("This is not the correct controller for this cluster.")
        return reply

    async def forward(self, request: Request[Reply], version: int, seconds: float) -> Reply:
        """Have the controller decide what a client has asked of this broker (KIP-590)."""
        header = encode_request_header(request.api_key, version, 0, self._client_id)
        envelope = EnvelopeRequest(
            request_data=header + encode_bytes(request, version), request_principal=None, client_host_address=b""
        )
        reply = await self.call(envelope, 0, seconds)
        if reply.error_code or reply.response_data is None:
            raise ApiError("the controller could not decide", code=ErrorCode(reply.error_code))
        data = reply.response_data
        try:
            has_tags = response_has_tags(request.api_key, version)
            _, position = decode_response_header(data, has_tags=has_tags)
            decoded, _ = decode_prefix(response_class(request.api_key), version, data, position)
        except CodecError as error:
            raise ControllerLost(f"The controller's answer cannot be read: {error}") from error
        return cast(Reply, decoded)

    def close(self) -> None:
        if self._channel is not None:
            self._forget(self._channel)

    async def _answer(self, answer: "asyncio.Future[Reply]", seconds: float) -> Reply:
        """The answer of a controller that may be deposed, or stand still, before it comes."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    try:
                        async with asyncio.timeout(LOOK_SECONDS):
                            return await asyncio.shield(answer)
                    except TimeoutError:
                        if await self._door.controller() != self._controller:
                            raise ChannelClosed("another controller was elected") from None
        finally:
            # Nothing waits for it any more; that it fails with its connection is no news.
            answer.cancel()

    async def _connected(self) -> Channel:
        async with self._connecting:
            if self._channel is not None and self._channel.is_open:
                return self._channel
            controller = await self._find()
            if controller is None or not controller.port:
                raise NotController("There is no controller at the moment.")
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    channel = await Channel.connect(self._net, controller.host, controller.port, self._client_id)
            except (OSError, TimeoutError) as error:
                raise NotController(f"The controller, broker {controller.node_id}, cannot be reached.") from error
            self._channel, self._controller = channel, controller
            return channel

    async def _find(self) -> Member | None:
        try:
            return await self._door.controller()
        except OSError as error:
            raise NotController(f"It cannot be seen which broker is the controller: {error}.") from error

    def _forget(self, channel: Channel) -> None:
        channel.close()
        if self._channel is channel:
            self._channel = self._controller = None
