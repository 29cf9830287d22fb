"""What a stream remembers of keys, against a plain model of it."""

import random

import numpy as np

from levada.spark.rows.remembering import EXEMPT, SEEN, forget, repeats


def rows(*given: tuple[int, int, int]) -> np.ndarray:
    return np.array(list(given), SEEN)


NOTHING = rows()


def test_a_key_is_repeated_within_the_time_and_not_after_it() -> None:
    marked, seen = repeats(NOTHING, rows((1, 1, 0), (1, 1, 10), (1, 1, 21), (2, 2, 3)), within_us=10)
    assert marked.tolist() == [False, True, False, False]
    assert seen.tolist() == [(1, 1, 21), (2, 2, 3)]
    marked, _ = repeats(seen, rows((1, 1, 31), (2, 2, 14)), within_us=10)
    assert marked.tolist() == [True, False]


def test_a_row_that_is_out_of_order_repeats_a_later_one() -> None:
    marked, seen = repeats(rows((1, 1, 100)), rows((1, 1, 95), (1, 1, 50)), within_us=10)
    assert marked.tolist() == [True, False]
    assert seen.tolist() == [(1, 1, 100)]


def test_keys_with_one_equal_hash_are_different_keys() -> None:
    marked, seen = repeats(rows((1, 1, 0), (1, 2, 0)), rows((1, 3, 0), (1, 2, 0)), within_us=10)
    assert marked.tolist() == [False, True]
    assert len(seen) == 3


def test_an_exempt_row_repeats_nothing_and_is_not_remembered() -> None:
    marked, seen = repeats(rows((1, 1, 0)), rows((1, 1, EXEMPT), (1, 1, EXEMPT), (1, 1, 1)), within_us=10)
    assert marked.tolist() == [False, False, True]
    assert seen.tolist() == [(1, 1, 1)]
    marked, _ = repeats(NOTHING, rows((1, 1, EXEMPT), (1, 1, 5)), within_us=10)
    assert marked.tolist() == [False, False]


def test_the_past_is_forgotten_and_a_date_in_the_future_forgets_nothing() -> None:
    seen = rows((1, 1, 50), (2, 2, 80), (3, 3, 100))
    assert forget(seen, 10, now_us=1_000)["first"].tolist() == [2, 3]
    wrong = rows((1, 1, 50), (2, 2, 80), (3, 3, 10**15))
    assert forget(wrong, 10, now_us=90)["first"].tolist() == [2, 3]
    assert len(forget(NOTHING, 10, now_us=90)) == 0


def test_it_agrees_with_a_plain_model_over_many_batches() -> None:
    dice = random.Random(7)
    seen, model = NOTHING, dict[int, int]()
    clock = 0
    for _ in range(200):
        batch = [(dice.randrange(8), clock + dice.randrange(20)) for _ in range(dice.randrange(12))]
        clock += 15
        marked, seen = repeats(seen, rows(*((key % 3, key, time) for key, time in batch)), within_us=10)
        expected = [False] * len(batch)
        before = dict(model)
        for index in sorted(range(len(batch)), key=lambda index: batch[index][1]):
            key, time = batch[index]
            near_in_batch = any(
                other == key and (at < time or (at == time and number < index)) and time - at <= 10
                for number, (other, at) in enumerate(batch)
            )
            expected[index] = near_in_batch or (key in before and abs(time - before[key]) <= 10)
            model[key] = max(time, model.get(key, time))
        assert marked.tolist() == expected
        assert {int(entry["second"]): int(entry["time"]) for entry in seen} == model
