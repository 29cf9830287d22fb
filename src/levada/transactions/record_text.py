"""Spells out the records of `__transaction_state`, worded as Apache's tools word them."""

from levada.coordination.record_text import spelled
from levada.model.buffers import Buffer
from levada.transactions.records import decode


def text_of(offset: int, key: Buffer, value: Buffer | None) -> tuple[str, str | None]:
    return spelled(offset, key, value, decode)
