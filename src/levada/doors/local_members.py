"""Who takes part in a local coordinator: a file for each broker of the machine, written anew with every heartbeat."""

import json
from dataclasses import dataclass

from levada.doors.files import CoordinatorFiles
from levada.metadata.door import AlreadyRegistered, Member
from levada.world.clock import MachineClock
from levada.world.disk import DirectoryLock, Disk

MEMBER = "member-"


@dataclass(frozen=True, slots=True)
class _Heartbeat:
    member: Member
    boot_id: str
    awake_ms: int
    resigned_epoch: int
    """Up to which it writes nothing any more."""


class LocalMembers:
    def __init__(
        self, disk: Disk, clock: MachineClock, files: CoordinatorFiles, own: tuple[int, str], session_timeout_ms: int
    ) -> None:
        self._disk = disk
        self._clock = clock
        self._files = files
        self._node_id, self._incarnation = own
        self._session_timeout_ms = session_timeout_ms
        self._host, self._port = "", 0
        self._resigned_epoch = 0
        self._lock: DirectoryLock | None = None

    def register(self, where: str) -> None:
        try:
            self._lock = self._disk.lock(self._files.path(f"{MEMBER}{self._node_id}.lock"))
        except BlockingIOError:
            raise AlreadyRegistered(
                f"a broker with id {self._node_id} is running on {where}; stop it or choose another --node-id"
            ) from None
        self.beat()

    def announce(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.beat()

    def resign(self, epoch: int) -> None:
        self._resigned_epoch = epoch
        self.beat()

    def beat(self) -> None:
        heartbeat = {
            "incarnation": self._incarnation,
            "boot_id": self._clock.boot_id(),
            # Of a clock that stands still while the machine sleeps, as all its brokers do: none is silent for that.
            "awake_ms": self._clock.awake_ms(),
            "host": self._host,
            "port": self._port,
            "resigned_epoch": self._resigned_epoch,
        }
        # Unsynced: who reads it lives on the same machine, and dies with it.
        self._files.write_whole(f"{MEMBER}{self._node_id}", json.dumps(heartbeat).encode(), durable=False)

    def all(self) -> list[Member]:
        heartbeats = (self._heartbeat(node_id) for node_id in self._files.numbers(MEMBER))
        return [one.member for one in heartbeats if one is not None and self._is_recent(one)]

    def find(self, node_id: int, incarnation: str) -> Member | None:
        """A broker that lives, as the process of this incarnation."""
        heartbeat = self._heartbeat(node_id)
        if heartbeat is None or heartbeat.member.incarnation != incarnation or not self._is_recent(heartbeat):
            return None
        return heartbeat.member

    def may_lead(self, node_id: int, incarnation: str, epoch: int) -> bool:
        """Whether this process lives and has not said that it writes nothing more in the epoch that it claimed."""
        if self.find(node_id, incarnation) is None:
            return False
        heartbeat = self._heartbeat(node_id)
        return heartbeat is not None and heartbeat.resigned_epoch < epoch

    def leave(self) -> None:
        if self._lock is None:
            return
        # No file, or one of a life that is over, would do as well; but others need not wait for it to grow old.
        self._files.remove(f"{MEMBER}{self._node_id}")
        self._lock.release()
        self._lock = None

    def _is_recent(self, heartbeat: _Heartbeat) -> bool:
        age_ms = self._clock.awake_ms() - heartbeat.awake_ms
        return heartbeat.boot_id == self._clock.boot_id() and 0 <= age_ms < self._session_timeout_ms

    def _heartbeat(self, node_id: int) -> _Heartbeat | None:
        try:
            read = json.loads(self._files.read(f"{MEMBER}{node_id}"))
            member = Member(node_id, str(read["incarnation"]), str(read["host"]), int(read["port"]))
            return _Heartbeat(member, str(read["boot_id"]), int(read["awake_ms"]), int(read["resigned_epoch"]))
        except (ValueError, KeyError, TypeError):
            # None has come, or a power cut took it.
            return None
