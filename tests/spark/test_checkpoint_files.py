"""How the files of a checkpoint are written, and that a query which started before goes on."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from levada.spark import read, write
from levada.spark.checkpoints import BY_FILE_SYSTEM, FILE_MANAGER, is_on_this_machine, quick_files
from tests.spark.sink_checks import committed_records
from tests.spark.sourcing import numbered, send


@pytest.mark.parametrize(
    ("path", "is_here"),
    [
        ("/data/progress", True),
        ("progress", True),
        ("/data/a:b", True),
        ("file:///data", True),
        ("FILE:/data", True),
        ("hdfs://name:8020/data", False),
        ("s3a://bucket/data", False),
        ("dbfs:/data", False),
    ],
)
def test_only_a_disk_of_this_machine_is_written_to_in_the_quick_way(
    spark: SparkSession, path: str, is_here: bool
) -> None:
    assert is_on_this_machine(spark, path) == is_here
    with quick_files(spark, path):
        assert (spark.conf.get(FILE_MANAGER, None) == BY_FILE_SYSTEM) == is_here
    assert spark.conf.get(FILE_MANAGER, None) is None


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_only_checksums_of_the_checkpoint_itself_are_removed(spark: SparkSession, tmp_path: Path, scheme: str) -> None:
    checkpoint = tmp_path / "a#b"
    ours = ["offsets/.0.crc", "commits/.1.crc", "sources/0/.0.crc", "state/0/7/.3.delta.crc", ".metadata.crc"]
    others = [".report.csv.crc", "results/.part-0.parquet.crc", "offsets.old/.0.crc"]
    beside = tmp_path / "a" / "offsets" / ".0.crc"
    for path in [*(checkpoint / name for name in (*ours, *others)), beside]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    with quick_files(spark, f"{scheme}{checkpoint}"):
        left = sorted(str(path.relative_to(checkpoint)) for path in checkpoint.rglob(".*.crc"))
    assert left == sorted(others)
    assert beside.exists()


def test_a_way_that_was_chosen_is_kept(spark: SparkSession) -> None:
    chosen = BY_FILE_SYSTEM.replace("FileSystemBased", "FileContextBased")
    spark.conf.set(FILE_MANAGER, chosen)
    try:
        with quick_files(spark, "/data"):
            assert spark.conf.get(FILE_MANAGER) == chosen
        assert spark.conf.get(FILE_MANAGER) == chosen
    finally:
        spark.conf.unset(FILE_MANAGER)


def test_a_query_of_a_state_goes_on_from_files_of_either_way(
    spark: SparkSession, bootstrap: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    source, out = new_topic(2), new_topic()

    def run() -> None:
        rows = read(source, format="string", bootstrap=bootstrap, startingOffsets="earliest").good
        counts: DataFrame = rows.groupBy("value").count().selectExpr("value as key", "cast(count as string) as value")
        query = write(
            counts,
            out,
            key="key",
            format="string",
            output_mode="update",
            checkpoint=str(tmp_path / "checkpoint"),
            trigger="available-now",
            bootstrap=bootstrap,
        )
        assert query is not None
        assert query.awaitTermination(100)

    for number in range(3):
        send(bootstrap, source, list(numbered(5)))
        if number == 1:
            spark.conf.set(FILE_MANAGER, BY_FILE_SYSTEM.replace("FileSystemBased", "FileContextBased"))
        run()
        spark.conf.unset(FILE_MANAGER)
        # A file whose process was killed before it had renamed the checksum, too.
        for checksum in (tmp_path / "checkpoint").rglob(".*.crc"):
            checksum.write_bytes(b"crc\0\0\0\x02\0\x01\x02\x03\x04")
    counted = sorted((record.key, record.value) for record in committed_records(bootstrap, out))
    assert counted == sorted((value, b"%d" % (turn + 1)) for value in numbered(5) for turn in range(3))
