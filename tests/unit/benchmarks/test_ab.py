"""The statistics behind "as fast as before": when two commits are told apart, and when they are not."""

import random
import statistics

from benchmarks.ab import ALLOWED, interval

SLICES = 15


def ratios(median: float, noise: float, seed: int) -> list[float]:
    chance = random.Random(seed)
    return [median * chance.gauss(1.0, noise) for _ in range(SLICES)]


def test_slices_that_agree_leave_no_doubt() -> None:
    assert interval([1.03] * SLICES) == (1.03, 1.03)


def test_the_median_is_inside_and_noise_makes_the_interval_wider() -> None:
    widths = []
    for noise in (0.01, 0.05, 0.2):
        sample = ratios(1.0, noise, seed=7)
        low, high = interval(sample)
        assert low <= statistics.median(sample) <= high
        widths.append(high - low)
    assert widths == sorted(widths)


def test_the_same_slices_have_the_same_interval_in_any_order() -> None:
    sample = ratios(1.0, 0.05, seed=3)
    assert interval(sample) == interval(list(sample))
    assert interval(sample) != interval(ratios(1.0, 0.05, seed=4))


def test_the_true_ratio_is_inside_in_about_nine_of_ten_runs() -> None:
    inside = 0
    for seed in range(60):
        low, high = interval(ratios(1.0, 0.05, seed))
        inside += low <= 1.0 <= high
    assert 48 <= inside <= 60


def test_what_is_slower_is_found_in_noise_and_what_is_not_slower_is_let_pass() -> None:
    assert all(interval(ratios(1.15, 0.04, seed))[0] > ALLOWED for seed in range(20))
    assert all(interval(ratios(1.00, 0.04, seed))[0] <= ALLOWED for seed in range(20))


def test_a_few_slices_that_were_disturbed_do_not_make_a_commit_slower() -> None:
    disturbed = [1.0] * (SLICES - 4) + [3.0] * 4
    low, _ = interval(disturbed)
    assert low <= ALLOWED
