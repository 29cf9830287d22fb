"""The life of a compacted log, by chance, on a machine that may lose its power."""

from tests.logs import batches_from, killed
from tests.property.compacted_log_moves import MovingCompactedLog


class PowerlessCompactedLog(MovingCompactedLog):
    """The machine loses its power at any disk operation: a beginning with everything that was flushed remains."""

    power_loss = True

    def after_crash(self) -> None:
        assert self.model.flushed <= self.log.end_offset <= self.model.end
        self._cut_at_hole()
        lost = [one for one in self.model.batches if one.next_offset > self.log.end_offset]
        self.cut_producers |= {one.producer_id for one in lost if one.producer_id is not None}
        self.model.cut(self.log.end_offset)
        # Else what was cut off here could come back by the next power cut, behind other records.
        self.flush()
        self.checkpoint = killed(self.log)

    def _cut_at_hole(self) -> None:
        """A compacted log may have gaps, so that none is taken for the trace of a power cut; here it is known."""
        position, stored = self.log.start_offset, set()
        while batches := batches_from(self.log, position) if position < self.log.end_offset else []:
            stored |= {one.base_offset for one in batches}
            position = batches[-1].next_offset
        start = min(self.model.start, self.log.start_offset)
        for batch in self.model.batches:
            is_uncertain = batch.base_offset >= self.model.flushed and batch.next_offset > start
            if is_uncertain and batch.base_offset < self.log.end_offset and batch.base_offset not in stored:
                self.log.truncate(batch.base_offset, self.now_ms)
                return


def live(machine: MovingCompactedLog, steps: int) -> None:
    """A life of a log; the first steps that fail carry the seed."""
    weights = {
        machine.write: 6,
        machine.end_transaction: 3,
        machine.repeat: 1,
        machine.replicate: 4,
        machine.upkeep: 3,
        machine.wait: 2,
        machine.raise_start: 0.3,
        machine.retain: 0.5,
        machine.clean: 6,
        machine.move: 3,
        machine.prepare_to_die: 1,
        machine.stop_and_start: 0.5,
        machine.crash_and_start: 0.5,
        machine.check: 1,
    }
    for step in machine.chance.choices(list(weights), list(weights.values()), k=steps):
        step()
    machine.close()
