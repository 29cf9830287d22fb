"""How the recovery of a node's logs is reported."""

import logging

import pytest

from levada.node.opening import Recovery


def test_progress_is_reported_after_two_seconds_with_an_estimate(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    recovery = Recovery(total_bytes=1_000, started_ms=10_000)
    for now_ms, size in ((10_500, 100), (11_999, 100), (12_000, 50), (12_100, 50), (14_000, 200), (16_500, 500)):
        recovery.advance(size, now_ms)
    assert caplog.messages == [
        "recovering percent=25 remaining_s=6",
        "recovering percent=50 remaining_s=4",
        "recovering percent=100 remaining_s=0",
    ]
