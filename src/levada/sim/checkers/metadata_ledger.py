"""The one metadata log that there must be: each batch once, by the controller of its epoch, the same for all."""

from dataclasses import dataclass, field

from levada.metadata.delta import apply
from levada.metadata.door import MetadataBatch
from levada.metadata.image import Image
from levada.metadata.records import RegisterBrokerRecord
from levada.sim.checkers.check_failed import CheckFailed


@dataclass(slots=True)
class MetadataLedger:
    """What any reader has read, or any writer was told that it counts, stays so for all of them.

    What is wrong is kept for the run to raise: the code that is under test could take it for an error of its own.
    """

    failure: CheckFailed | None = None

    images: dict[int, Image] = field(default_factory=lambda: {-1: Image()})
    """By the last offset of a batch, what all until then add up to."""
    image: Image = field(default_factory=Image)
    """The newest of them."""
    controllers: dict[int, str] = field(default_factory=dict)
    """By epoch, which process was given the right to write."""
    _batches: dict[int, MetadataBatch] = field(default_factory=dict)
    _broker_epochs: dict[int, int] = field(default_factory=dict)

    def fail(self, text: str) -> None:
        self.failure = self.failure or CheckFailed(text)

    @property
    def newest_epoch(self) -> int:
        """Of the controllers that were told of their right."""
        return max(self.controllers, default=0)

    @property
    def log_epoch(self) -> int:
        """Of the controller that wrote last."""
        return next((batch.epoch for batch in reversed(self._batches.values())), 0)

    def elect(self, process: str, epoch: int) -> None:
        """A process was told that it may write."""
        if epoch <= self.newest_epoch:
            self.fail(f"{process} is elected for epoch {epoch}, but there is epoch {self.newest_epoch} already")
        self.controllers[epoch] = process

    def acknowledge(self, process: str, batch: MetadataBatch) -> None:
        """A controller was told that its batch counts; its callers may hear of it from now on."""
        self.check_right(process, batch.epoch, self.newest_epoch)
        self.learn(process, batch)

    def check_right(self, process: str, epoch: int, newest: int) -> None:
        """A controller was told that it has the right to write, or that it used it."""
        if self.controllers.get(epoch) != process:
            self.fail(f"{process} writes in epoch {epoch} of {self.controllers.get(epoch)}")
        if newest > epoch:
            self.fail(f"{process} was deposed by epoch {newest}, but was told that epoch {epoch} is not over")

    def learn(self, process: str, batch: MetadataBatch) -> bool:
        """A process knows of a batch; whether it is the first to."""
        known = self._batches.get(batch.base_offset)
        if known is not None:
            if known != batch:
                self.fail(f"at offset {batch.base_offset} is {known}, but {process} has {batch}")
            return False
        if batch.base_offset != self.image.offset + 1:
            self.fail(f"{process} has offset {batch.base_offset}, but the log goes on at {self.image.offset + 1}")
            return False
        if batch.epoch < self.log_epoch or batch.epoch not in self.controllers:
            self.fail(f"{process} has {batch} after epoch {self.log_epoch} of {self.controllers}")
        self._check_broker_epochs(batch)
        self._batches[batch.base_offset] = batch
        self.image = apply(self.image, batch.records, batch.last_offset)
        self.images[batch.last_offset] = self.image
        return True

    def check_image(self, process: str, image: Image) -> None:
        """What a process has made of the log up to some offset is what all make of it."""
        if image.offset not in self.images:
            self.fail(f"{process} is at offset {image.offset}, where no batch ends")
        elif image != self.images[image.offset]:
            self.fail(f"{process} has {image}, but the log adds up to {self.images[image.offset]}")

    def _check_broker_epochs(self, batch: MetadataBatch) -> None:
        """The offset of the registration is the epoch of the broker (DESIGN 6)."""
        for offset, record in enumerate(batch.records, batch.base_offset):
            if isinstance(record, RegisterBrokerRecord):
                before = self._broker_epochs.get(record.broker_id, -1)
                if not before < record.broker_epoch == offset:
                    self.fail(f"broker {record.broker_id} of epoch {before} is registered as {record} at {offset}")
                self._broker_epochs[record.broker_id] = offset
