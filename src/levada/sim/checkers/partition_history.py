"""What must be true of a log after whatever happened to it."""

from dataclasses import dataclass, field

from levada.sim.checkers.check_failed import CheckFailed


@dataclass(slots=True)
class PartitionHistory:
    """What was sent to a partition, and what was acknowledged at which offset."""

    sent: dict[bytes, None] = field(default_factory=dict)
    acknowledged: dict[int, bytes] = field(default_factory=dict)
    at_risk: dict[int, bytes] = field(default_factory=dict)
    """Acknowledged before a power cut: an end of these may be gone, and its offsets used again."""

    def send(self, value: bytes) -> None:
        self.sent[value] = None

    def acknowledge(self, offset: int, value: bytes) -> None:
        known = self.acknowledged.get(offset, value)
        if known != value:
            raise CheckFailed(f"offset {offset} was acknowledged for {known!r} and again for {value!r}")
        self.acknowledged[offset] = value

    def lose_power(self) -> None:
        self.at_risk, self.acknowledged = self.acknowledged, {}

    def check(self, log: list[tuple[int, bytes]]) -> None:
        """Compare with the whole log, read while nothing is under way."""
        offsets = [offset for offset, _ in log]
        if offsets != list(range(len(log))):
            raise CheckFailed(f"offsets are not 0, 1, 2, ...: {offsets[:20]}")
        values = [value for _, value in log]
        if len(set(values)) != len(values):
            raise CheckFailed("an idempotent producer's record is in the log twice")
        for offset, value in log:
            if value not in self.sent:
                raise CheckFailed(f"offset {offset} has {value!r}, which no producer sent")
        self._settle_risk(values)
        for offset, value in self.acknowledged.items():
            if offset >= len(values) or values[offset] != value:
                found = values[offset] if offset < len(values) else "the end"
                raise CheckFailed(f"{value!r} was acknowledged at {offset}, where now is {found!r}")

    def _settle_risk(self, values: list[bytes]) -> None:
        """What survived a power cut must be a beginning of what was acknowledged, without holes."""
        survived = {
            offset: value for offset, value in self.at_risk.items() if offset < len(values) and values[offset] == value
        }
        lost = [offset for offset in self.at_risk if offset not in survived]
        if lost and survived and max(survived) > min(lost):
            raise CheckFailed(f"offset {min(lost)} is gone after a power cut, and {max(survived)} behind it is not")
        self.at_risk = {}
        for offset, value in survived.items():
            self.acknowledge(offset, value)
