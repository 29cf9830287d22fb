"""Deadlines come in order, once, and at the time last set."""

import random

from levada.coordination.timers import Timers


def due(timers: Timers[str], now_ms: int) -> list[str]:
    keys = []
    while (key := timers.pop_due(now_ms)) is not None:
        keys.append(key)
    return keys


def test_nothing_is_due_where_nothing_was_set() -> None:
    timers: Timers[str] = Timers()
    assert timers.deadline_ms() is None
    assert due(timers, 10**9) == []


def test_keys_come_in_the_order_of_their_deadlines_and_equal_ones_as_they_were_set() -> None:
    timers: Timers[str] = Timers()
    for key, deadline_ms in (("late", 30), ("first", 10), ("second", 10), ("middle", 20)):
        timers.set(key, deadline_ms)
    assert timers.deadline_ms() == 10
    assert due(timers, 9) == []
    assert due(timers, 20) == ["first", "second", "middle"]
    assert timers.deadline_ms() == 30


def test_a_deadline_can_move_either_way() -> None:
    timers: Timers[str] = Timers()
    timers.set("later", 10)
    timers.set("later", 50)
    timers.set("sooner", 60)
    timers.set("sooner", 5)
    assert due(timers, 10) == ["sooner"]
    assert timers.deadline_ms() == 50
    assert due(timers, 100) == ["later"]


def test_a_cancelled_key_is_not_due_and_can_be_set_again() -> None:
    timers: Timers[str] = Timers()
    timers.set("key", 10)
    timers.cancel("key")
    timers.cancel("never set")
    assert timers.deadline_ms() is None
    timers.set("key", 20)
    assert due(timers, 15) == []
    assert due(timers, 20) == ["key"]


def test_timers_agree_with_a_plain_dict() -> None:
    chance = random.Random(5)
    timers: Timers[str] = Timers()
    model: dict[str, int] = {}
    for now_ms in range(3_000):
        key = chance.choice("abcdef")
        if chance.random() < 0.6:
            model[key] = now_ms + chance.randrange(1, 40)
            timers.set(key, model[key])
        elif chance.random() < 0.3:
            model.pop(key, None)
            timers.cancel(key)
        assert timers.deadline_ms() == min(model.values(), default=None)
        expected = sorted(key for key, deadline_ms in model.items() if deadline_ms <= now_ms)
        assert sorted(due(timers, now_ms)) == expected
        for key in expected:
            del model[key]
