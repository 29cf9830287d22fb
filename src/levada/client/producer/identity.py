"""Who an idempotent producer is to the brokers: an id and an epoch, under which batches are numbered."""

from dataclasses import dataclass

from levada.records.batch import NO_PRODUCER_ID

MAX_EPOCH = 2**15 - 1


@dataclass(slots=True)
class ProducerIdentity:
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = -1

    @property
    def is_known(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def become(self, producer_id: int, producer_epoch: int) -> None:
        self.producer_id, self.producer_epoch = producer_id, producer_epoch

    def bump(self) -> None:
        """Leave the sequences of this epoch behind (KIP-360); after the last epoch a new id has to be asked for."""
        if self.producer_epoch >= MAX_EPOCH:
            self.become(NO_PRODUCER_ID, -1)
        else:
            self.producer_epoch += 1
