"""A controller's right to write to ZooKeeper, and how its writes are fenced by it."""

from dataclasses import dataclass

from levada.doors.zookeeper_layout import CONTROLLER_EPOCH
from levada.doors.zookeeper_session import Check, Operation, ZooKeeperSession
from levada.metadata.door import Deposed


@dataclass(slots=True)
class Claim:
    """The next controller changes the version of `/controller_epoch`, and every write of this one asks for it."""

    epoch: int
    epoch_version: int
    session_id: int
    """It is over with its session too, for another controller may have been elected and gone since."""
    head_version: int
    """Of `/head`: how many entries the log has had, as far as this writer knows."""
    next_offset: int

    @property
    def check(self) -> Check:
        return Check(CONTROLLER_EPOCH, self.epoch_version)

    @property
    def is_over(self) -> Deposed:
        return Deposed(f"epoch {self.epoch} is over")


async def write_fenced(session: ZooKeeperSession, claim: Claim, *operations: Operation) -> int | None:
    """The number of the operation that failed, None if all were carried out; Deposed if the claim is over."""
    failed = await session.transact(claim.check, *operations)
    if failed == 0:
        raise claim.is_over
    return None if failed is None else failed - 1
