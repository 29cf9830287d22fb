"""The fingerprint of a run."""

import itertools

from levada.sim.world.trace import Trace


def digest_of(*events: tuple[int, str, bytes]) -> str:
    times = itertools.chain.from_iterable([now_ns] for now_ns, _, _ in events)
    trace = Trace(lambda: next(times))
    for _, event, data in events:
        trace.note(event, data)
    return trace.digest()


def test_time_event_and_bytes_all_count() -> None:
    digests = [
        digest_of((1, "append", b"ab")),
        digest_of((2, "append", b"ab")),
        digest_of((1, "remove", b"ab")),
        digest_of((1, "append", b"ac")),
        digest_of((1, "append", b"ab"), (1, "append", b"ab")),
        digest_of((1, "append", b"abab")),
    ]
    assert len(set(digests)) == len(digests)
    assert digest_of((1, "append", b"ab")) == digests[0]


def test_lines_are_kept_only_when_recording() -> None:
    silent, recording = Trace(lambda: 1_500_000), Trace(lambda: 1_500_000, recording=True)
    for trace in (silent, recording):
        trace.note("append", b"ab")
        trace.note("sync")
    assert silent.lines is None
    assert recording.lines is not None
    assert [line.strip() for line in recording.lines] == ["1.500000 append (2 bytes)", "1.500000 sync"]
    assert silent.digest() == recording.digest()
    assert silent.count == 2
