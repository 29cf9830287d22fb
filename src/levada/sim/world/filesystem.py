"""The file system of one simulated machine: a tree in memory whose changes last only when their directory is synced."""

import errno
import os
import posixpath
import random
from dataclasses import dataclass

from levada.sim.world.disk_faults import DiskFaults
from levada.sim.world.incarnation import Incarnation
from levada.sim.world.pages import Pages


class Directory:
    """Names as the process sees them, and as the device has them."""

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = Directory | Pages


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """A creation, removal or rename that its directories may still forget, as a whole."""

    node: Node
    slots: tuple[tuple[Directory, str, Node | None], ...]

    def touches(self, directory: Directory) -> bool:
        return any(each is directory for each, _, _ in self.slots)

    def make_durable(self) -> None:
        for directory, name, node in self.slots:
            if node is None:
                directory.durable.pop(name, None)
            else:
                directory.durable[name] = node


class _Dependencies:
    """What changes have in common with others: a node, or a name in a directory."""

    def __init__(self) -> None:
        self._nodes: set[Node] = set()
        self._names: set[tuple[Directory, str]] = set()

    def add(self, change: Change) -> None:
        self._nodes.add(change.node)
        for directory, name, _ in change.slots:
            self._names.add((directory, name))

    def shares(self, change: Change) -> bool:
        if change.node in self._nodes:
            return True
        return any((directory, name) in self._names for directory, name, _ in change.slots)


class FileSystem:
    """Survives its processes. `capacity` bounds the bytes of all files, None for no bound."""

    def __init__(self, chance: random.Random, *, directories: tuple[str, ...] = ()) -> None:
        self.faults = DiskFaults(chance)
        self.capacity: int | None = None
        self.used = 0
        self.locks: dict[Pages, Incarnation] = {}
        self._chance = chance
        self._root = Directory()
        self._pending: dict[Change, None] = {}
        for path in directories:
            self.make_directories(path)
        self.commit(self.pending())

    def find(self, path: str) -> Node:
        node: Node = self._root
        for name in _parts(path):
            if not isinstance(node, Directory):
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def has(self, path: str) -> bool:
        try:
            self.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def find_directory(self, path: str) -> Directory:
        node = self.find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return node

    def open_file(self, path: str, *, create: bool) -> Pages:
        directory, name = self._slot(path)
        if create and name not in directory.entries:
            self._change(Pages(), (directory, name, True))
        node = self.find(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        return node

    def make_directories(self, path: str) -> None:
        directory = self._root
        for name in _parts(path):
            if name not in directory.entries:
                self._change(Directory(), (directory, name, True))
            node = directory.entries[name]
            if not isinstance(node, Directory):
                raise _error(errno.EEXIST, path)
            directory = node

    def rename(self, old: str, new: str) -> None:
        node = self.find(old)
        source, old_name = self._slot(old)
        target, new_name = self._slot(new)
        replaced = target.entries.get(new_name)
        if replaced is node:
            return
        if isinstance(node, Directory):
            if posixpath.normpath(new).startswith(posixpath.normpath(old) + "/"):
                raise _error(errno.EINVAL, new)
            if isinstance(replaced, Pages):
                raise _error(errno.ENOTDIR, new)
            if replaced is not None and replaced.entries:
                raise _error(errno.ENOTEMPTY, new)
        elif isinstance(replaced, Directory):
            raise _error(errno.EISDIR, new)
        self._free(replaced)
        self._change(node, (source, old_name, False), (target, new_name, True))

    def remove(self, path: str) -> None:
        node = self.find(path)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        directory, name = self._slot(path)
        self._free(node)
        self._change(node, (directory, name, False))

    def remove_tree(self, path: str) -> None:
        directory = self.find_directory(path)
        for name, node in sorted(directory.entries.items()):
            inner = posixpath.join(path, name)
            if isinstance(node, Directory):
                self.remove_tree(inner)
            else:
                self.remove(inner)
        parent, name = self._slot(path)
        self._change(directory, (parent, name, False))

    def pending(self, directory: Directory | None = None) -> list[Change]:
        """The changes of a directory that a sync begun now covers, with those they build upon."""
        covered: list[Change] = []
        built_upon = _Dependencies()
        for change in reversed(self._pending):
            if directory is None or change.touches(directory) or built_upon.shares(change):
                covered.append(change)
                built_upon.add(change)
        return covered[::-1]

    def commit(self, covered: list[Change]) -> None:
        """Put changes on the device, in order."""
        for change in covered:
            if change in self._pending:
                change.make_durable()
                del self._pending[change]

    def room(self, wanted: int) -> int:
        """How many of `wanted` bytes still fit."""
        return wanted if self.capacity is None else max(0, min(wanted, self.capacity - self.used))

    def charge(self, pages: Pages, size: int) -> None:
        if pages.linked:
            self.used += size

    def release_locks(self, holder: Incarnation) -> None:
        self.locks = {pages: each for pages, each in self.locks.items() if each is not holder}

    def lose_power(self) -> None:
        """Forget what only the page cache knew."""
        self._keep_some_changes()
        self.used = 0
        self._lose_power(self._root)

    def _keep_some_changes(self) -> None:
        """Each pending change lasts or not, but none without those it builds upon."""
        lost = _Dependencies()
        keep_probability = self._chance.random()
        for change in self._pending:
            if self._chance.random() < keep_probability and not lost.shares(change):
                change.make_durable()
            else:
                lost.add(change)
        self._pending.clear()

    def _lose_power(self, directory: Directory) -> None:
        directory.entries = dict(sorted(directory.durable.items()))
        for node in directory.entries.values():
            if isinstance(node, Directory):
                self._lose_power(node)
            else:
                node.lose_power(self._chance)
                node.linked = True
                self.used += len(node.data)

    def _slot(self, path: str) -> tuple[Directory, str]:
        parent, name = posixpath.split(posixpath.normpath(path))
        return self.find_directory(parent), name

    def _change(self, node: Node, *slots: tuple[Directory, str, bool]) -> None:
        for directory, name, present in slots:
            if present:
                directory.entries[name] = node
            else:
                del directory.entries[name]
        change = Change(node, tuple((each, name, node if here else None) for each, name, here in slots))
        self._pending[change] = None

    def _free(self, node: Node | None) -> None:
        if isinstance(node, Pages):
            self.used -= len(node.data)
            node.linked = False


def _parts(path: str) -> list[str]:
    return [part for part in posixpath.normpath(path).split("/") if part not in ("", ".")]


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
