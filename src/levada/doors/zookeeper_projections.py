"""What people look up in ZooKeeper, in Kafka's JSON: topics, leaders, configurations; the controller writes behind.

Nothing reads it here and nothing waits for it. While many changes come, only the last of each is written; what another
controller has left is compared before it is written again.
"""

import asyncio
import json
import logging
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from levada.doors.zookeeper import ZooKeeperDoor
from levada.doors.zookeeper_claim import Claim, write_fenced
from levada.doors.zookeeper_entries import MAX_NODE_BYTES
from levada.doors.zookeeper_layout import (
    BROKER_CONFIGS,
    DEFAULT_BROKER,
    TOPIC_CONFIGS,
    TOPICS,
    encode_config,
    encode_partition_state,
    encode_topic,
    topic_path,
)
from levada.doors.zookeeper_session import Create, Delete, Operation, Set
from levada.metadata.delta import Delta
from levada.metadata.door import Deposed, DoorError
from levada.metadata.image import BROKER, TOPIC, Image, Resource
from levada.world.background import cancel_and_wait, start

logger = logging.getLogger(__name__)

BEHIND_SECONDS: Final = 0.2
RETRY_SECONDS: Final = 5.0
WRITTEN_AT_ONCE: Final = 100
LOOKED_AT_ONCE: Final = 16

Change: TypeAlias = tuple[str, Operation]
"""A root, and an operation on one of its nodes."""


class ZooKeeperProjections:
    """Told of every change on every node; writes while its node's door has a claim."""

    def __init__(self, door: ZooKeeperDoor) -> None:
        self._door = door
        self._session = door.session
        self._image = Image()
        self._epoch = 0
        """Whose projections these are; a newer claim begins with a look at what is there."""
        self._shown: dict[str, dict[str, bytes]] = {}
        """What is known to be there, by root: a topic or a configuration, with all below it."""
        self._stale: dict[str, None] = {}
        self._is_stale = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def follow(self, delta: Delta, image: Image) -> None:
        """Take note of what has changed, to be written later."""
        self._image = image
        if self._door.claim is None:
            return
        for topic_id in delta.touched_topics:
            if (name := image.topic_names.get(topic_id)) is not None:
                self._stale |= dict.fromkeys((topic_path(name), f"{TOPIC_CONFIGS}/{name}"))
        for topic in delta.removed_topics.values():
            self._stale |= dict.fromkeys((topic_path(topic.name), f"{TOPIC_CONFIGS}/{topic.name}"))
        self._stale |= dict.fromkeys(path for path in map(config_path, delta.touched_configs) if path is not None)
        self._is_stale.set()
        if self._task is None:
            self._task = start("projections into ZooKeeper", self._run())

    async def close(self) -> None:
        task, self._task = self._task, None
        await cancel_and_wait(task)

    async def _run(self) -> None:
        while True:
            await self._is_stale.wait()
            await asyncio.sleep(BEHIND_SECONDS)
            self._is_stale.clear()
            claim = self._door.claim
            if claim is None:
                continue
            try:
                if claim.epoch != self._epoch:
                    await self._look()
                    self._epoch = claim.epoch
                await self._write(claim)
            except Deposed:
                continue
            except (OSError, DoorError) as error:
                logger.warning("projections delayed epoch=%d reason=%r", claim.epoch, str(error))
                # What is there is not known any more.
                self._epoch = 0
                self._is_stale.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _look(self) -> None:
        """Learn what is there, of this controller or of those before it, and hold all of it for stale."""
        self._shown.clear()
        topics = {*await self._session.children(TOPICS), *self._image.topics}
        names = iter(sorted(topics))
        while window := list(islice(names, LOOKED_AT_ONCE)):
            shown = await asyncio.gather(*[self._tree(topic_path(name)) for name in window])
            self._shown.update({topic_path(name): tree for name, tree in zip(window, shown)})
        for root in (TOPIC_CONFIGS, BROKER_CONFIGS):
            paths = [f"{root}/{name}" for name in await self._session.children(root)]
            for path, node in zip(paths, await self._session.get_all(paths)):
                self._shown[path] = {} if node is None else {path: node.data}
        configs = [path for path in map(config_path, self._image.configs) if path is not None]
        configs += [f"{TOPIC_CONFIGS}/{name}" for name in self._image.topics]
        self._stale |= dict.fromkeys((*self._shown, *configs))

    async def _tree(self, path: str) -> dict[str, bytes]:
        """A topic's nodes, parents first."""
        below = f"{path}/partitions"
        partitions = [f"{below}/{name}" for name in await self._session.children(path + "/partitions")]
        paths = [path, below, *(each for one in partitions for each in (one, f"{one}/state"))]
        nodes = await self._session.get_all(paths)
        return {each: node.data for each, node in zip(paths, nodes) if node is not None}

    async def _write(self, claim: Claim) -> None:
        while self._stale:
            roots = list(islice(self._stale, WRITTEN_AT_ONCE))
            changes = [change for root in roots for change in self._changes(root, claim.epoch)]
            for root in roots:
                del self._stale[root]
            for some in _batches(changes):
                failed = await write_fenced(self._session, claim, *[operation for _, operation in some])
                if failed is not None:
                    raise OSError(f"{some[failed][1].path} is not as it was left")
                for root, operation in some:
                    self._note(root, operation)

    def _changes(self, root: str, epoch: int) -> Iterator[Change]:
        """What makes the nodes of a root what they should be."""
        shown, wanted = self._shown.get(root, {}), projection(self._image, root, epoch)
        for path in sorted(shown, reverse=True):
            if path not in wanted:
                yield root, Delete(path)
        for path, data in wanted.items():
            if path not in shown:
                yield root, Create(path, data)
            elif not _is_same(shown[path], data):
                yield root, Set(path, data)

    def _note(self, root: str, operation: Operation) -> None:
        shown = self._shown.setdefault(root, {})
        match operation:
            case Delete():
                del shown[operation.path]
                if not shown:
                    del self._shown[root]
            case Create() | Set():
                shown[operation.path] = operation.data


def _batches(changes: list[Change]) -> Iterator[list[Change]]:
    """Such as fit into a transaction."""
    batch: list[Change] = []
    size = 0
    for root, operation in changes:
        needed = len(operation.data) if isinstance(operation, Create | Set) else 0
        if batch and (len(batch) == WRITTEN_AT_ONCE or size + needed > MAX_NODE_BYTES):
            yield batch
            batch, size = [], 0
        batch.append((root, operation))
        size += needed
    if batch:
        yield batch


def projection(image: Image, root: str, epoch: int) -> Mapping[str, bytes]:
    """The nodes that a topic or a configuration should have, parents first; none for what is gone or too large."""
    parent, _, name = root.rpartition("/")
    topic = image.topics.get(name)
    if parent == BROKER_CONFIGS:
        values = image.config_of(BROKER, "" if name == DEFAULT_BROKER else name)
        return {root: encode_config(values)} if values else {}
    if topic is None:
        return {}
    if parent == TOPIC_CONFIGS:
        return {root: encode_config(image.config_of(TOPIC, name))}
    nodes = {root: encode_topic(topic), f"{root}/partitions": b""}
    if len(nodes[root]) > MAX_NODE_BYTES:
        return {}
    for partition in topic.partitions:
        path = f"{root}/partitions/{partition.index}"
        nodes |= {path: b"", f"{path}/state": encode_partition_state(partition, epoch)}
    return nodes


def config_path(resource: Resource) -> str | None:
    """Where the configuration of a topic or broker is shown; others are not."""
    if resource.type == TOPIC:
        return f"{TOPIC_CONFIGS}/{resource.name}"
    return f"{BROKER_CONFIGS}/{resource.name or DEFAULT_BROKER}" if resource.type == BROKER else None


def _is_same(before: bytes, after: bytes) -> bool:
    """A new controller does not write all states again for its epoch alone."""
    return before == after or _told(before) == _told(after)


def _told(data: bytes) -> object:
    try:
        read = json.loads(data)
    except ValueError:
        return data
    return {**read, "controller_epoch": None} if isinstance(read, dict) else data
