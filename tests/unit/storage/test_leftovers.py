"""What interrupted renames, stray and damaged snapshots leave in a log's directory, and what opening makes of it."""

import shutil
from pathlib import Path

import pytest

from levada.storage.loading import settle_leftovers
from levada.storage.log import Log
from levada.world.real_disk import RealDisk
from tests.logs import SMALL, append, check_indexes, clean, killed, opened, read_all

SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """A closed log of four segments or more, with a producer."""
    made = opened(tmp_path / "t-0")
    for number in range(40):
        append(made, b"%02d" % number * 20, producer_id=7, producer_epoch=0, base_sequence=number)
    made.close()
    assert len(made.segments) > 3
    return made


def names(log: Log) -> set[str]:
    return {path.name for path in Path(log.directory).iterdir()}


def stems(log: Log) -> list[str]:
    return [f"{segment.base_offset:020d}" for segment in log.segments]


def files_of(log: Log, number: int) -> list[Path]:
    return [path for path in map(Path, map(log.segments[number].path, SUFFIXES)) if path.exists()]


def rename(path: Path, suffix: str) -> None:
    path.rename(path.with_name(path.name + suffix))


def copy(path: Path, suffix: str) -> None:
    shutil.copyfile(path, path.with_name(path.name + suffix))


def settle(log: Log) -> set[str]:
    settle_leftovers(RealDisk(), log.directory)
    return names(log)


def merge(log: Log, first: int, count: int, suffix: str) -> bytes:
    """Write what compaction would: some segments as one, with the ending it has at a certain step."""
    data = b"".join(Path(segment.path(".log")).read_bytes() for segment in log.segments[first : first + count])
    Path(log.segments[first].path(".log") + suffix).write_bytes(data)
    for kind in (".index", ".timeindex"):
        Path(log.segments[first].path(kind) + suffix).write_bytes(b"")
    return data


def test_deleted_files_go_and_those_of_snapshots_of_metadata_stay(log: Log) -> None:
    before = names(log)
    for name in ("0.log.deleted", f"{5:020d}.snapshot.deleted", f"{5:020d}.index.deleted"):
        (Path(log.directory) / name).write_bytes(b"x")
    kept = f"{3:020d}-0000000001.checkpoint.deleted"
    (Path(log.directory) / kept).write_bytes(b"x")
    assert settle(log) == before | {kept}


def test_a_retired_segment_whose_renames_were_cut_off_is_gone_or_whole(log: Log) -> None:
    """Segment 0 is being deleted, its files renamed one by one: .log first."""
    expected = list(read_all(opened(log.directory, state=clean(log))))
    second = log.segments[1].base_offset
    files = files_of(log, 0)
    for renamed in range(len(files) + 1):
        directory = Path(log.directory).with_name(f"copy-{renamed}")
        shutil.copytree(log.directory, directory)
        for path in files[:renamed]:
            rename(directory / path.name, ".deleted")
        again = opened(directory, state=killed(log))
        assert list(read_all(again)) == (expected if renamed == 0 else expected[second:])
        assert not list(directory.glob("*.deleted"))
        again.close()
        check_indexes(directory)


def test_cleaned_files_are_an_unfinished_rewrite_and_go(log: Log) -> None:
    before = names(log)
    merge(log, 0, 2, ".cleaned")
    assert settle(log) == before


def test_swaps_behind_a_cleaned_one_are_an_unfinished_split_and_go(log: Log) -> None:
    """The highest base is renamed first, so a lower .cleaned means that not all is ready."""
    before = names(log)
    merge(log, 1, 1, ".cleaned")
    merge(log, 2, 1, ".swap")
    assert settle(log) == before


def test_a_swap_below_every_cleaned_one_is_finished(log: Log) -> None:
    merged = merge(log, 0, 2, ".swap")
    merge(log, 2, 1, ".cleaned")
    after = settle(log)
    assert f"{stems(log)[1]}.log" not in after
    assert not [name for name in after if name.endswith((".swap", ".cleaned"))]
    assert Path(log.segments[0].path(".log")).read_bytes() == merged


@pytest.mark.parametrize(
    ("sources_retired", "swaps_renamed"), [*((count, 0) for count in range(7)), *((6, count) for count in range(1, 4))]
)
def test_a_finished_rewrite_takes_the_place_of_its_sources_at_every_step(
    log: Log, sources_retired: int, swaps_renamed: int
) -> None:
    """Sources are renamed to .deleted, then .swap to plain names; each step may be the last."""
    expected = list(read_all(opened(log.directory, state=clean(log))))
    merged = merge(log, 1, 2, ".swap")
    sources = [path for number in (1, 2) for path in files_of(log, number)]
    assert len(sources) == 6
    for path in sources[:sources_retired]:
        rename(path, ".deleted")
    swaps = sorted(Path(log.directory).glob("*.swap"), key=lambda path: SUFFIXES.index(path.suffixes[0]))
    for path in swaps[:swaps_renamed]:
        path.rename(path.with_suffix(""))
    again = opened(log.directory, state=killed(log))
    assert Path(log.segments[1].path(".log")).read_bytes() == merged
    assert [segment.base_offset for segment in again.segments] == [
        segment.base_offset for number, segment in enumerate(log.segments) if number != 2
    ]
    assert list(read_all(again)) == expected
    assert not [name for name in names(again) if name.endswith((".swap", ".deleted"))]
    again.close()
    check_indexes(log.directory)


@pytest.mark.parametrize("ending", [".cleaned", ".0123456789abcdef.cleaned"], ids=["Apache's", "ours"])
@pytest.mark.parametrize("left_at", range(3))
def test_a_swap_whose_sources_are_gone_is_finished_whatever_a_pass_that_failed_has_left(
    log: Log, left_at: int, ending: str
) -> None:
    expected = list(read_all(opened(log.directory, state=clean(log))))
    merge(log, left_at, 1, ending)
    merge(log, 1, 2, ".swap")
    for number in (1, 2):
        for path in files_of(log, number):
            rename(path, ".deleted")
    again = opened(log.directory, state=killed(log))
    assert list(read_all(again)) == expected
    assert not [name for name in names(again) if name.endswith((".swap", ".deleted", ".cleaned"))]


def test_a_swap_that_is_not_complete_is_undone_whatever_a_pass_that_failed_has_left(log: Log) -> None:
    """The file of records gets its new ending last: until then the old segments are what counts."""
    before = {path.name: path.read_bytes() for path in Path(log.directory).iterdir()}
    merge(log, 0, 1, ".aaaa.cleaned")
    merge(log, 1, 2, ".bbbb.cleaned")
    for kind in SUFFIXES[1:3]:
        merged = Path(log.segments[1].path(kind) + ".bbbb.cleaned")
        merged.rename(log.segments[1].path(kind) + ".swap")
        settle(log)
        assert {path.name: path.read_bytes() for path in Path(log.directory).iterdir()} == before
        merge(log, 1, 2, ".bbbb.cleaned")


def test_a_finished_swap_takes_the_snapshots_between_with_it(log: Log) -> None:
    merge(log, 0, 3, ".swap")
    after = settle(log)
    assert not {f"{stem}.snapshot" for stem in stems(log)[1:3]} & after
    assert f"{stems(log)[3]}.snapshot" in after


def test_indexes_without_a_log_go(log: Log) -> None:
    before = names(log)
    for kind in SUFFIXES[1:]:
        (Path(log.directory) / f"{7:020d}{kind}").write_bytes(b"")
    assert settle(log) == before


def test_foreign_files_are_left_alone(log: Log) -> None:
    for name in ("notes.log", "x.index", f"{0:020d}extra.log", "partition.metadata", "README"):
        (Path(log.directory) / name).write_bytes(b"mine")
    again = opened(log.directory, state=clean(log))
    assert again.end_offset == 40
    assert {"notes.log", "x.index", "partition.metadata", "README"} <= names(log)


def test_stray_snapshots_go_except_one_behind_all_segments(log: Log) -> None:
    directory = Path(log.directory)
    stray = directory / f"{3:020d}.snapshot"
    shutil.copyfile(directory / f"{40:020d}.snapshot", stray)
    opened(directory, state=clean(log))
    assert not stray.exists()
    assert (directory / f"{40:020d}.snapshot").exists()


@pytest.mark.parametrize("stop", [clean, killed])
def test_a_damaged_snapshot_is_removed_and_the_next_one_serves(log: Log, stop: object) -> None:
    directory = Path(log.directory)
    for name in (f"{40:020d}.snapshot", f"{stems(log)[-1]}.snapshot"):
        data = bytearray((directory / name).read_bytes())
        data[-1] ^= 1
        (directory / name).write_bytes(data)
    again = opened(directory, state=stop(log))  # type: ignore[operator]
    assert again.producers.entries() == log.producers.entries()


def test_without_any_sound_snapshot_the_whole_log_is_read(log: Log) -> None:
    for path in Path(log.directory).glob("*.snapshot"):
        path.write_bytes(b"")
    again = opened(log.directory, state=clean(log))
    assert again.producers.entries() == log.producers.entries()


def test_a_snapshot_above_the_end_is_of_records_that_are_gone(log: Log) -> None:
    directory = Path(log.directory)
    shutil.copyfile(directory / f"{40:020d}.snapshot", directory / f"{90:020d}.snapshot")
    again = opened(directory, state=clean(log))
    assert not (directory / f"{90:020d}.snapshot").exists()
    assert again.producers.entries() == log.producers.entries()


def test_a_segment_without_index_is_rebuilt_and_one_without_time_index_is_not(log: Log) -> None:
    index, times = Path(log.segments[1].path(".index")), Path(log.segments[2].path(".timeindex"))
    good = index.read_bytes()
    index.unlink()
    times.unlink()
    again = opened(log.directory, SMALL, state=clean(log))
    assert index.read_bytes() == good
    assert len(again.segments[2].time_index) == 0
    assert [offset for offset, _ in read_all(again)] == list(range(40))


def test_copies_of_files_do_not_confuse(log: Log) -> None:
    copy(Path(log.segments[0].path(".log")), ".bak")
    assert opened(log.directory, state=clean(log)).end_offset == 40
