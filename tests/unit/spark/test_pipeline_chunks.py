"""Rows on their way to a database: no more at a time than a statement takes."""

import pyarrow as pa

from levada.spark.pipeline.chunks import pieces, spooled


def test_a_batch_is_cut_until_its_parts_are_small_enough_or_single_rows() -> None:
    batch = pa.RecordBatch.from_pydict({"n": list(range(9)), "text": ["x" * 100] * 8 + ["y" * 10_000]})
    cut = list(pieces(batch, 450))
    assert [row for piece in cut for row in piece.to_pylist()] == batch.to_pylist()
    assert all(piece.nbytes <= 450 or piece.num_rows == 1 for piece in cut)
    assert len(cut) == 5
    assert list(pieces(batch.slice(0, 0), 0)) == [batch.slice(0, 0)]


def test_chunks_are_there_as_often_as_they_are_read() -> None:
    batches = [pa.RecordBatch.from_pydict({"n": [number]}) for number in range(3)]
    packed = []
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as stream:
            stream.write_batch(batch)
        packed.append(sink.getvalue().to_pybytes())
    with spooled(packed) as spool:
        assert list(spool) == list(spool) == batches
    with spooled([]) as spool:
        assert list(spool) == []
