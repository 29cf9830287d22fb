"""Picks the compiled record kernel where it was built, and its pure twin where it was not."""

import logging

try:
    from levada.records._kernel import (
        data_of_runs,
        decode,
        decode_columns,
        decode_for_consumer,
        encode,
        ends_of_runs,
        extents,
        find_since,
        find_unfit,
        plain_batch,
        plain_batch_of_producer,
        scan,
        skip_below,
        unfilled,
    )

    COMPILED = True
except ImportError:
    from levada.records.pure import (
        data_of_runs,
        decode,
        decode_columns,
        decode_for_consumer,
        encode,
        ends_of_runs,
        extents,
        find_since,
        find_unfit,
        plain_batch,
        plain_batch_of_producer,
        scan,
        skip_below,
        unfilled,
    )

    COMPILED = False
    logging.getLogger("levada.records").warning(
        "the compiled record kernel is missing, so records are read and written by its slower Python twin; "
        "install a C compiler and reinstall levada to build it"
    )

__all__ = [
    "COMPILED",
    "data_of_runs",
    "decode",
    "decode_columns",
    "decode_for_consumer",
    "encode",
    "ends_of_runs",
    "extents",
    "find_since",
    "find_unfit",
    "plain_batch",
    "plain_batch_of_producer",
    "scan",
    "skip_below",
    "unfilled",
]
