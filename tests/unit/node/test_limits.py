"""What a node says about the limits of its machine."""

from penstock.node.limits import files_kept_open, open_files_warning


def test_scenario_9_a_limit_below_segments_times_three_is_named_with_the_way_out() -> None:
    assert open_files_warning(1_024, 256) is None
    warning = open_files_warning(1_024, 1_000)
    assert warning is not None
    assert "1024 open files are allowed and 3256 wanted" in warning
    assert "ulimit -n 3256" in warning


def test_half_of_the_allowance_is_left_for_connections() -> None:
    assert files_kept_open(1_024) == 512
    assert files_kept_open(300) == 44
    assert files_kept_open(100) == 16
