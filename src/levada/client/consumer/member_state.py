"""Who a consumer is in its group at the moment: membership writes it, commits go by it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from levada.client.types import GroupMetadata
from levada.model.error_codes import ErrorCode

NO_GENERATION = -1
NOT_YET_IN = "the offsets are not committed: this consumer is not in its group; poll to join it"


class Phase(Enum):
    OUT = auto()
    """No member, or not any more."""
    REBALANCING = auto()
    """Asks for its place in the next generation: what it owns is not decided."""
    IN = auto()


@dataclass(slots=True)
class MemberState:
    group_id: str
    instance_id: str | None = None
    member_id: str = ""
    generation: int = NO_GENERATION
    """Or the member epoch, in groups of the new protocol."""
    phase: Phase = Phase.OUT
    why_out: str = NOT_YET_IN
    """What to tell a commit that is refused, where there is more to tell than that the group has gone on."""
    shown: GroupMetadata | None = None
    """Its last place in the group, kept when that is lost: offsets of what was read there must be refused, and a commit
    without a member is not. Partitions change hands inside polls only, so what is read belongs to it."""
    on_refusal: Callable[[int, ErrorCode], None] = field(default=lambda generation, code: None)
    """Called when the coordinator does not know this generation's commits any more."""

    @property
    def is_member(self) -> bool:
        """Whether its partitions are still its own, as far as it knows."""
        return self.generation != NO_GENERATION

    def enter(self, generation: int) -> None:
        self.generation = generation
        self.phase = Phase.IN
        self.why_out = ""
        self.shown = self.metadata()

    def leave(self, why: str = "", *, keeps_id: bool = False) -> None:
        """The generation is lost; the id may still be good to join with."""
        self.generation = NO_GENERATION
        self.phase = Phase.OUT
        self.why_out = why
        if not keeps_id:
            self.member_id = ""

    def metadata(self) -> GroupMetadata:
        return GroupMetadata(self.group_id, self.generation, self.member_id, self.instance_id)
