"""A cluster as a client reaches it: any broker to start with, the right one for each request, news when they change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from enum import IntEnum
from typing import TypeVar

from levada.client.cluster.contact import FirstContact
from levada.client.cluster.node import Node
from levada.client.cluster.view import Address, ClusterView, TopicView, read_view, with_leader, with_topics
from levada.client.cluster.waiting import Backoff, Deadline, background, shared
from levada.client.errors import (
    Disconnected,
    IllegalState,
    KafkaError,
    NoBrokerReached,
    TimedOut,
    UnsupportedVersion,
    error_for,
)
from levada.client.options import Options
from levada.model.error_codes import ErrorCode
from levada.protocol.declare import Request
from levada.protocol.messages.find_coordinator import MANY_KEYS_SINCE, FindCoordinatorRequest, FindCoordinatorResponse
from levada.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from levada.world.world import ClientWorld

T = TypeVar("T")
logger = logging.getLogger("levada.client")

TOPIC_FAULTS_THAT_PASS = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
"""A topic may be on its way: just created, or about to be by this very question."""


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Cluster:
    """Finds brokers, keeps what is known of topics current, and carries requests; of one client, on one loop."""

    def __init__(self, world: ClientWorld, options: Options, *, creates_topics: bool = True) -> None:
        self.world = world
        self.options = options
        self.view = ClusterView()
        self.listeners: list[Callable[[ClusterView], None]] = []
        """Called after each change of the view."""
        self.backoff = Backoff(world.entropy, options["retry.backoff.ms"], options["retry.backoff.max.ms"])
        self.on_end: Callable[[], None] = _nothing
        """Called when the upkeep ends: the client is closed, or its loop is about to be."""
        self.wants_all_topics = False
        self._creates_topics = creates_topics
        self._bootstrap = [Address(host, port) for host, port in options.addresses]
        self.contact = FirstContact(world, self._bootstrap)
        self._may_rebootstrap = options["metadata.recovery.strategy"] == "rebootstrap"
        self._nodes: dict[Address, Node] = {}
        self._separate: list[Node] = []
        self._wanted: dict[str, None] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}
        self._refreshing: asyncio.Task[None] | None = None
        self._upkeep: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._refresh_asked = asyncio.Event()
        self._is_closed = False

    # Requests

    async def call(
        self,
        node_id: int,
        request: Request[T],
        *,
        timeout_ms: float | None = None,
        at_least: int = 0,
        at_most: int | None = None,
    ) -> T:
        """The answer of one broker; Disconnected, TimedOut or UnsupportedVersion when there is none to be had."""
        return await self.node(node_id).call(request, timeout_ms=timeout_ms, at_least=at_least, at_most=at_most)

    async def call_any(
        self, request: Request[T], *, timeout_ms: float | None = None, at_least: int = 0, at_most: int | None = None
    ) -> T:
        """The answer of whichever broker answers first, asked one after another."""
        last: KafkaError | None = None
        for node in self._candidates():
            try:
                if not self.contact.is_made:
                    await self._first_contact(node)
                return await node.call(request, timeout_ms=timeout_ms, at_least=at_least, at_most=at_most)
            except (Disconnected, TimedOut) as error:
                last = error
        raise last or Disconnected("there is no broker to ask")

    def node(self, node_id: int) -> Node:
        broker = self.view.brokers.get(node_id)
        if broker is None:
            raise Disconnected(f"broker {node_id} is not among the brokers that this client knows of the cluster")
        return self._node_at(broker.address)

    def separate_node(self, address: Address) -> Node:
        """A broker over a connection of one's own, for what would hold up other requests; it ends with the client."""
        node = Node(self.world, self.options, address)
        self._separate = [one for one in self._separate if not one.is_closed]
        self._separate.append(node)
        return node

    async def persist(
        self, attempt: Callable[[], Awaitable[T]], deadline: Deadline, what: str, *, setting: str = ""
    ) -> T:
        """Repeat what fails for reasons that pass, until the deadline; the last reason is in the error's text."""
        failures = 0
        last: KafkaError | None = None
        while True:
            try:
                async with asyncio.timeout(min(deadline.remaining_ms() / 1_000, MAX_TIMEOUT_SECONDS)):
                    return await attempt()
            except KafkaError as error:
                # First, since TimedOut is a TimeoutError too: that one request took too long is a reason that passes.
                last = error
                failures += 1
                pause_ms = self.backoff.pause_ms(failures)
                if not error.retriable:
                    raise
                if deadline.remaining_ms() <= pause_ms or self.contact.gives_up(deadline, pause_ms):
                    raise self._gave_up(what, deadline, setting, error) from error
                await asyncio.sleep(pause_ms / 1_000)
            except TimeoutError as error:
                raise self._gave_up(what, deadline, setting, last) from error

    def unreached(self, deadline: Deadline, setting: str) -> NoBrokerReached:
        """What to raise where no broker has ever answered, with what each address is doing at the moment."""
        for address in self._bootstrap:
            if address in self._nodes:
                self.contact.note(address, self._nodes[address].what_is_missing())
        return self.contact.error(deadline, setting)

    # Metadata

    def start(self) -> None:
        """Keep the view current from now on."""
        if self._upkeep is None and not self._is_closed:
            self._loop = asyncio.get_running_loop()
            self._upkeep = background(self._keep_current())
            # A user who ends the loop without closing the client cancels this task, and the connections go with it.
            self._upkeep.add_done_callback(lambda _: self._ended())

    def own_loop(self) -> asyncio.AbstractEventLoop:
        """The loop that runs, which has to be the one that this client was first used on."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop is not loop:
            raise IllegalState(
                "this client belongs to another event loop, which may have ended: make one inside each asyncio.run()"
            )
        return loop

    def want(self, topics: Iterable[str]) -> None:
        """Keep these topics in the view."""
        new = [topic for topic in topics if topic not in self._wanted]
        if new:
            self._wanted.update(dict.fromkeys(new))
            self.refresh_soon()

    def forget(self, topics: Iterable[str]) -> None:
        """These need not be in the view any more."""
        for topic in topics:
            self._wanted.pop(topic, None)

    def want_only(self, topics: Collection[str]) -> None:
        """Keep these topics in the view, and no others."""
        is_new = any(topic not in self._wanted for topic in topics)
        self._wanted = dict.fromkeys(topics)
        if is_new:
            self.refresh_soon()

    def refresh_soon(self) -> None:
        """What is known has proved wrong, or more is wanted: ask again before long."""
        self._refresh_asked.set()

    async def refresh(self) -> None:
        """Ask now, once; calls that ask meanwhile get the same answer."""
        if self._refreshing is None:
            self._refreshing = background(self._refresh())
            self._refreshing.add_done_callback(self._refreshed)
        await shared(self._refreshing)

    async def topic(self, name: str, deadline: Deadline) -> TopicView:
        """A topic once it is known with all its partitions; an error when it cannot be within the deadline."""
        self._wanted.setdefault(name)

        async def attempt() -> TopicView:
            if name not in self.view.topics:
                await self.refresh()
            known = self.view.topics.get(name)
            if known is not None:
                return known
            fault = self.view.faults.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise error_for(fault, context=f"topic {name}")

        return await self.persist(attempt, deadline, f"topic {name} was not found", setting="max.block.ms")

    def heard_of_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> None:
        """A broker named the leader in its answer (KIP-951)."""
        self._see(with_leader(self.view, topic, partition, leader, leader_epoch))

    # Coordinators

    async def coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """The broker that coordinates a group or a transactional id; remembered until forgotten."""
        known = self._coordinators.get((kind, key))
        if known is not None and known in self.view.brokers:
            return known
        response: FindCoordinatorResponse
        try:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
            response = await self.call_any(request, at_least=MANY_KEYS_SINCE)
        except UnsupportedVersion:
            request = FindCoordinatorRequest(key_type=kind, key=key)
            response = await self.call_any(request, at_most=MANY_KEYS_SINCE - 1)
        found = response.coordinators[0] if response.coordinators else response
        if found.error_code != ErrorCode.NONE:
            raise error_for(found.error_code, found.error_message, context=f"coordinator of {key!r}")
        if found.node_id not in self.view.brokers:
            await self.refresh()
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    async def close(self) -> None:
        self._is_closed = True
        tasks = [task for task in (self._upkeep, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        self._hang_up()
        for task in tasks:
            try:
                await task
            except (asyncio.CancelledError, KafkaError):
                pass

    # Inside

    async def _first_contact(self, node: Node) -> None:
        """Connect before any broker was reached: the next address is not kept waiting by one that says nothing."""
        self.contact.begin()
        try:
            async with asyncio.timeout(self.contact.step_ms() / 1_000):
                await node.connect()
        except KafkaError as error:
            self.contact.failed(node.address, str(error))
            raise
        except TimeoutError:
            self.contact.failed(node.address, node.what_is_missing())
            raise TimedOut(node.what_is_missing()) from None
        self.contact.is_made = True

    def _gave_up(self, what: str, deadline: Deadline, setting: str, last: KafkaError | None) -> TimedOut:
        if self.contact.is_missing:
            return self.unreached(deadline, setting)
        if not deadline.timeout_ms:
            return TimedOut(f"{what}: a timeout of 0 leaves no time to ask a broker")
        limit = f"{deadline.timeout_ms:.0f} ms" + (f" ({setting})" if setting else "")
        reason = f"last error: {last}" if last else "a broker was asked, and its answer had not come yet"
        return TimedOut(f"{what} within {limit}; {reason}")

    def _ended(self) -> None:
        self._is_closed = True
        self._hang_up()
        self.on_end()

    def _hang_up(self) -> None:
        for node in [*self._nodes.values(), *self._separate]:
            node.close()
        self._nodes.clear()
        self._separate.clear()

    async def _keep_current(self) -> None:
        """Refresh when asked, and when what is known has become old."""
        max_age_s = self.options["metadata.max.age.ms"] / 1_000
        failures = 0
        while True:
            try:
                async with asyncio.timeout(max_age_s):
                    await self._refresh_asked.wait()
            except TimeoutError:
                pass
            self._refresh_asked.clear()
            try:
                await self.refresh()
                failures = 0
                if any(fault in TOPIC_FAULTS_THAT_PASS for fault in self.view.faults.values()):
                    failures = 1
            except KafkaError as error:
                failures += 1
                logger.debug("metadata refresh failed: %s", error)
            if failures:
                self._refresh_asked.set()
            # Asked once more at most every so often, however many partitions complain.
            await asyncio.sleep(self.backoff.pause_ms(max(failures, 1)) / 1_000)

    async def _refresh(self) -> None:
        wanted = dict(self._wanted)
        everything = self.wants_all_topics
        topics = None if everything else [MetadataRequestTopic(name=name) for name in wanted]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=self._creates_topics)
        response: MetadataResponse = await self.call_any(request)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:
            self._forget_brokers()
            response = await self.call_any(request)
        if not response.brokers:
            raise Disconnected("the brokers that were asked know of no broker that is running")
        view = read_view(response, self.view)
        if not everything:
            # A topic wanted since the request has to wait for the next answer; what is not wanted any more goes.
            view = with_topics(_only(self.view, self._wanted), view)
        self._see(view)
        if any(name not in wanted for name in self._wanted) and not everything:
            self.refresh_soon()

    def _refreshed(self, task: "asyncio.Task[None]") -> None:
        self._refreshing = None
        if not task.cancelled():
            # The calls that waited have the error; there may be none, and then asyncio would complain.
            task.exception()

    def _see(self, view: ClusterView) -> None:
        if view is self.view:
            return
        self.view = view
        wanted = {broker.address for broker in view.brokers.values()}
        for address in [address for address in self._nodes if address not in wanted]:
            self._nodes.pop(address).close()
        for listener in self.listeners:
            listener(view)

    def _candidates(self) -> Iterable[Node]:
        """Whom to ask what any broker knows: connected ones with little to do first, the bootstrap ones last."""
        known = [self._node_at(broker.address) for broker in self.view.brokers.values()]
        turn = self.world.entropy.below(len(known)) if known else 0
        yield from sorted(
            known[turn:] + known[:turn], key=lambda node: (node.is_in_disgrace, not node.is_connected, node.calls)
        )
        if known and not self._may_rebootstrap:
            return
        addresses = {node.address for node in known}
        for address in self._bootstrap:
            if address not in addresses:
                yield self._node_at(address)

    def _forget_brokers(self) -> None:
        """Start again from the bootstrap addresses, as a broker may demand (KIP-1102)."""
        self._see(ClusterView(topics=self.view.topics, names=self.view.names))

    def _node_at(self, address: Address) -> Node:
        if self._is_closed:
            raise IllegalState("the client is closed")
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = Node(self.world, self.options, address)
        return node


MAX_TIMEOUT_SECONDS = 365 * 24 * 3600.0


def _nothing() -> None:
    pass


def _only(view: ClusterView, wanted: Collection[str]) -> ClusterView:
    topics = {name: topic for name, topic in view.topics.items() if name in wanted}
    faults = {name: fault for name, fault in view.faults.items() if name in wanted}
    return ClusterView(view.cluster_id, view.controller_id, view.brokers, topics, faults, view.names)
