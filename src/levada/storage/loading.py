"""Opens the log in a directory: settles what a crash left behind, recovers, and restores its producers."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

from levada.storage.formats import CorruptFile
from levada.storage.leader_epochs import LeaderEpochs
from levada.storage.log import Log
from levada.storage.log_config import LogConfig
from levada.storage.open_files import OpenFiles
from levada.storage.producer_snapshots import ProducerSnapshots
from levada.storage.producers import Producers
from levada.storage.recovery import Cut, Progress, TornTail, recover_segment, sound_batches
from levada.storage.replay import Bounds, replay_producers
from levada.storage.segment import CLEANED, DELETED, INDEX_SUFFIXES, SUFFIXES, SWAP, Segment
from levada.world.disk import Disk

logger = logging.getLogger(__name__)

LOG_NAME = f"{0:020d}.log"


@dataclass(frozen=True, slots=True)
class LogState:
    """What the files beside the logs say about one of them."""

    was_clean: bool = False
    recovery_point: int = 0
    start_offset: int = 0
    high_watermark: int = 0


@dataclass(slots=True)
class Opening:
    """One log being opened."""

    disk: Disk
    files: OpenFiles
    directory: str
    config: LogConfig
    state: LogState
    now_ms: int
    jitter: Callable[[int], int]
    progress: Progress
    cuts: list[Cut] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    """Files of segments that had to go."""
    first_offset: int | None = None
    """Of the oldest segment that was there."""
    has_written: bool = False
    """Whether a segment was made or made anew."""


def open_log(
    disk: Disk,
    directory: str,
    config: LogConfig,
    *,
    now_ms: int,
    files: OpenFiles | None = None,
    state: LogState | None = None,
    jitter: Callable[[int], int] = lambda _: 0,
    progress: Progress = lambda _: None,
) -> tuple[Log, list[Cut]]:
    """The log, ready to be appended to, and what had to be cut off."""
    # An empty one is false, and the one that all logs share begins empty.
    files = OpenFiles(disk) if files is None else files
    opening = Opening(disk, files, directory, config, state or LogState(), now_ms, jitter, progress)
    is_new = not disk.exists(directory)
    disk.make_directories(directory)
    settle_leftovers(disk, directory)
    epochs = _load_epochs(opening)
    segments = _load_segments(opening, epochs)
    snapshots = ProducerSnapshots(disk, directory)
    snapshots.load_names()
    log = Log(
        disk,
        opening.files,
        directory,
        config,
        segments=segments,
        epochs=epochs,
        snapshots=snapshots,
        jitter=jitter,
    )
    log.is_new = is_new
    log.retired_paths = opening.retired
    if opening.first_offset is not None:
        log.settled_base = min(opening.first_offset, log.settled_base)
    log.has_changed = not is_new and (opening.has_written or not opening.state.was_clean)
    log.is_untouched = not log.has_changed and not is_new
    if not log.is_untouched:
        log.active.preallocate()
    log.start_offset = max(opening.state.start_offset, segments[0].base_offset)
    epochs.truncate_end(log.end_offset)
    epochs.truncate_start(log.start_offset)
    # Retention may have gone on since the checkpoint: what it took was below the high watermark.
    log.set_high_watermark(max(opening.state.high_watermark, log.start_offset))
    _restore_producers(opening, log, snapshots)
    log.recovery_point = (
        log.end_offset if opening.state.was_clean else min(opening.state.recovery_point, log.end_offset)
    )
    return log, opening.cuts


def settle_leftovers(disk: Disk, directory: str) -> None:
    """Finish or undo what a crash interrupted, in the order that makes every state between unambiguous."""
    names = disk.names(directory)
    for name in names:
        if name.endswith(DELETED) and not name.endswith(".checkpoint.deleted"):
            disk.remove(f"{directory}/{name}")
    swaps = [name for name in names if name.endswith(SWAP)]
    cleaned = [name for name in names if name.endswith(CLEANED)]
    undone = [name for name in swaps if _is_undone(disk, directory, name, names)]
    for name in undone:
        disk.remove(f"{directory}/{name}")
    if undone:
        # That they are to be undone is seen by the cleaned files.
        disk.sync_directory(directory)
    for name in cleaned:
        disk.remove(f"{directory}/{name}")
    _finish_swaps(disk, directory, [name for name in swaps if name not in undone])
    for name in disk.names(directory):
        is_index = name.endswith(INDEX_SUFFIXES) and name[:20].isdigit()
        if is_index and not disk.exists(f"{directory}/{name[:20]}.log"):
            disk.remove(f"{directory}/{name}")


def _is_undone(disk: Disk, directory: str, swap: str, names: list[str]) -> bool:
    """Whether a file with the ending `.swap` is of a replacement that was not complete, and the old segments are.

    Files of records get that ending last here, and first in Apache; and the passes of this broker give the files that
    they write endings of their own. So a cleaned file says something of a swap only if Apache wrote it, or if it is the
    file of records that the swap lacks: others may be there from a pass that failed.
    """
    base = swap[:20]
    if f"{base}.log{SWAP}" not in names:
        has_cleaned = any(name.startswith(f"{base}.log.") and name.endswith(CLEANED) for name in names)
        # If not, the records had their own name already and the indexes had not; or the swap was given up.
        return has_cleaned or f"{base}.log" not in names or swap.removesuffix(SWAP) in names
    cleaned = [_base_of(name) for name in names if name[20:] in {f"{suffix}{CLEANED}" for suffix in SUFFIXES}]
    source = max((name for name in names if _is_log(name) and name[:20] <= base), default=None)
    if source is None or min(cleaned, default=_base_of(swap) + 1) > _base_of(source):
        return False
    # Apache splits a segment from its end on: what was to be replaced is there if it reaches into the swap.
    return _next_offset_of(disk, f"{directory}/{source}", _base_of(source)) > _base_of(swap)


def _finish_swaps(disk: Disk, directory: str, swaps: list[str]) -> None:
    """The replacement of some segments was complete: what it replaces goes, then it takes its place."""
    records = [name for name in swaps if name.endswith(f".log{SWAP}")]
    indexes = [name for name in swaps if name not in records]
    for swap in records:
        for name in _replaced(disk, directory, swap):
            disk.remove(f"{directory}/{name}")
    # With a sync between: a power cut could keep the new names and bring back what they stand for.
    for group in (indexes, records):
        if swaps:
            disk.sync_directory(directory)
        for name in group:
            disk.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP)}")


def _replaced(disk: Disk, directory: str, swap: str) -> list[str]:
    """The files of the segments that a complete one stands for."""
    low, names = _base_of(swap), disk.names(directory)
    high = max(_next_offset_of(disk, f"{directory}/{swap}", low), low + 1)
    plain = [name for name in names if name[:20].isdigit() and name[20:21] == "." and not name.endswith(SWAP)]
    own = [name for name in plain if _base_of(name) == low and name[20:] in SUFFIXES]
    if f"{swap[:20]}.log" not in names:
        # The old ones were retired: an index without the ending is the new one's.
        own = [name for name in own if f"{name}{SWAP}" in names]
    return own + [name for name in plain if low < _base_of(name) < high]


def _next_offset_of(disk: Disk, path: str, base_offset: int) -> int:
    next_offset = base_offset
    file = disk.open(path)
    try:
        for batch in sound_batches(file, base_offset):
            next_offset = batch.next_offset
    except TornTail:
        pass
    finally:
        file.close()
    return next_offset


def _is_log(name: str) -> bool:
    return len(name) == len(LOG_NAME) and name.endswith(".log") and name[:20].isdigit()


def _base_of(name: str) -> int:
    return int(name[:20]) if name[:20].isdigit() else 0


def _load_epochs(opening: Opening) -> LeaderEpochs:
    epochs = LeaderEpochs(opening.disk, opening.directory)
    try:
        epochs.load()
    except CorruptFile as error:
        # The epochs stand in the batches too; what a full recovery does not find again is lost with the file.
        logger.warning("ignored epochs directory=%s reason=%r", opening.directory, str(error))
        epochs.clear()
    return epochs


def _load_segments(opening: Opening, epochs: LeaderEpochs) -> list[Segment]:
    disk, directory, state = opening.disk, opening.directory, opening.state
    bases = sorted(_base_of(name) for name in disk.names(directory) if _is_log(name))
    segments = [Segment(disk, opening.files, directory, base, opening.config) for base in bases]
    opening.first_offset = segments[0].base_offset if segments else None
    _drop_below_start(opening, segments)
    _join(segments)
    for number, segment in enumerate(segments):
        later = segments[number + 1 :]
        # Also the one that ends at the recovery point: it may have been closed, with new indexes, after that flush.
        is_unflushed = not state.was_clean and (not later or later[0].base_offset >= state.recovery_point)
        if not is_unflushed and _is_trusted(opening, segment, is_last=not later):
            continue
        # What was not flushed yet was not compacted either; not by us, but another broker may have left this log.
        is_flushed = state.was_clean or (bool(later) and later[0].base_offset <= state.recovery_point)
        may_have_gaps = opening.config.is_compacted or is_flushed
        cut = _recover(opening, segments[:number], segment, epochs, may_have_gaps=may_have_gaps)
        if cut is None and later and not may_have_gaps:
            cut = _hole(opening, segment, later)
        if cut is not None:
            for each in later:
                logger.warning("dropped segment=%s, which lies behind a cut", each.path(".log"))
                opening.retired += each.rename(DELETED)
            del segments[number + 1 :]
            break
    return _with_active(opening, segments)


def _drop_below_start(opening: Opening, segments: list[Segment]) -> None:
    """What retention had taken may be back after a power cut, or by a swap that was under way."""
    count = 0
    while count + 1 < len(segments) and segments[count + 1].base_offset <= opening.state.start_offset:
        logger.info("retired segment=%s, which lies below the log's start", segments[count].path(".log"))
        opening.retired += segments[count].rename(DELETED)
        count += 1
    del segments[:count]


def _join(segments: list[Segment]) -> None:
    for segment, following in pairwise(segments):
        segment.next_offset = following.base_offset


def _hole(opening: Opening, segment: Segment, later: list[Segment]) -> Cut | None:
    """A power cut may take the end of a segment and leave the next one; what stands behind a hole is cut off too."""
    if segment.next_offset == later[0].base_offset:
        return None
    lost = sum(each.file.size() for each in later)
    reason = f"offset {segment.next_offset} is gone, though {later[0].base_offset} behind it is not"
    cut = Cut(segment.path(".log"), segment.size, lost, reason)
    opening.cuts.append(cut)
    return cut


def _is_trusted(opening: Opening, segment: Segment, *, is_last: bool) -> bool:
    """Take a segment as it was left; only the last one is looked at, from its last index entry on."""
    segment.size = segment.file.size()
    try:
        if not opening.disk.exists(segment.path(".index")):
            raise CorruptFile("it has no index")
        segment.check_indexes()
        segment.transactions.check()
        if is_last:
            segment.load_end()
    except CorruptFile as error:
        logger.warning("rebuilding segment=%s reason=%r", segment.path(".log"), str(error))
        return False
    return True


def _recover(
    opening: Opening, before: list[Segment], segment: Segment, epochs: LeaderEpochs, *, may_have_gaps: bool
) -> Cut | None:
    """Recover a segment with the producers as they were at its beginning, and snapshot them at its end."""
    opening.has_written = True
    producers = Producers()
    snapshots = ProducerSnapshots(opening.disk, opening.directory)
    snapshots.load_names()
    replay_producers(
        tuple(before),
        producers,
        snapshots,
        Bounds(opening.state.start_offset, segment.base_offset, segment.base_offset),
        opening.now_ms,
        opening.config,
    )
    cut = recover_segment(segment, epochs, producers, opening.progress, may_have_gaps=may_have_gaps)
    epochs.write_if_changed()
    snapshots.take(producers)
    if cut is not None:
        opening.cuts.append(cut)
    return cut


def _with_active(opening: Opening, segments: list[Segment]) -> list[Segment]:
    state = opening.state
    if segments and segments[-1].next_offset < state.start_offset:
        logger.warning(
            "emptied log=%s, which ends at %d, before its start offset %d",
            opening.directory,
            segments[-1].next_offset,
            state.start_offset,
        )
        for segment in segments:
            opening.retired += segment.rename(DELETED)
        segments = []
    if not segments:
        segment = Segment(opening.disk, opening.files, opening.directory, state.start_offset, opening.config)
        segment.create()
        opening.has_written = True
        segments = [segment]
    _join(segments)
    jitter_ms = min(opening.config.segment_jitter_ms, opening.config.segment_ms)
    segments[-1].activate(opening.now_ms, opening.jitter(jitter_ms))
    return segments


def _restore_producers(opening: Opening, log: Log, snapshots: ProducerSnapshots) -> None:
    snapshots.remove_strays([segment.base_offset for segment in log.segments])
    if opening.state.was_clean and not snapshots.offsets:
        # A clean log without snapshots had no producers: reading all of it would find none.
        for offset in [*(segment.base_offset for segment in log.segments[-2:]), log.end_offset]:
            log.producers.end_offset = offset
            snapshots.take(log.producers)
        return
    replay_producers(
        log.segments,
        log.producers,
        snapshots,
        Bounds(log.start_offset, log.end_offset, log.high_watermark),
        opening.now_ms,
        opening.config,
    )
