"""Where records go."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from levada.client.errors import IllegalState
from levada.client.partitioners import (
    FrequentKeys,
    HotKeyPartitioner,
    Partitioning,
    PartitionLoad,
    RoundRobinPartitioner,
    StickyPartitions,
    own_partitioner,
    partition_of_key,
)

ALL = (0, 1, 2, 3)


def scripted(*values: int) -> "Script":
    return Script(list(values))


class Script:
    """Numbers that a test chose, and the bounds that they were asked for."""

    def __init__(self, values: list[int]) -> None:
        self.values = values
        self.bounds: list[int] = []

    def __call__(self, bound: int) -> int:
        self.bounds.append(bound)
        value = self.values.pop(0)
        assert value < bound
        return value


def test_a_key_goes_where_every_client_looks_for_it() -> None:
    # Kafka's own vectors: murmur2 of 21 is -973932308, of foobar -790332482.
    assert partition_of_key(b"21", 7) == (-973932308 & 0x7FFF_FFFF) % 7
    assert partition_of_key(b"foobar", 12) == (-790332482 & 0x7FFF_FFFF) % 12
    assert partition_of_key(b"", 3) in range(3)


class TestRoundRobin:
    def test_each_record_goes_to_the_next_partition_per_topic(self) -> None:
        choose = RoundRobinPartitioner()
        assert [choose("a", b"k", None, 4, ALL) for _ in range(5)] == [0, 1, 2, 3, 0]
        assert choose("b", None, b"v", 4, ALL) == 0

    def test_partitions_without_a_leader_are_left_out_while_there_are_others(self) -> None:
        choose = RoundRobinPartitioner()
        assert [choose("a", None, None, 4, (1, 3)) for _ in range(3)] == [1, 3, 1]
        assert [choose("a", None, None, 4, ()) for _ in range(2)] == [3, 0]


class TestSticky:
    def test_it_stays_until_a_batch_is_full(self) -> None:
        below = scripted(2, 0)
        sticky = StickyPartitions(below, batch_size=100)
        for _ in range(3):
            assert sticky.partition(4, ALL) == 2
            sticky.produced(2, 33, 4, ALL, batch_is_full=True)
        assert sticky.partition(4, ALL) == 2
        sticky.produced(2, 1, 4, ALL, batch_is_full=True)
        assert sticky.partition(4, ALL) == 0
        sticky.produced(0, 99, 4, ALL, batch_is_full=True)
        assert sticky.partition(4, ALL) == 0

    def test_a_batch_that_is_not_full_keeps_it_for_as_much_again(self) -> None:
        sticky = StickyPartitions(scripted(2, 0), batch_size=100)
        sticky.partition(4, ALL)
        sticky.produced(2, 199, 4, ALL, batch_is_full=False)
        assert sticky.partition(4, ALL) == 2
        sticky.produced(2, 1, 4, ALL, batch_is_full=False)
        assert sticky.partition(4, ALL) == 0

    def test_without_batches_every_record_goes_elsewhere(self) -> None:
        sticky = StickyPartitions(scripted(0, 1, 2), batch_size=0)
        chosen = []
        for _ in range(3):
            chosen.append(sticky.partition(4, ALL))
            if len(chosen) < 3:
                sticky.produced(chosen[-1], 10, 4, ALL, batch_is_full=True)
        assert chosen == [0, 1, 2]

    def test_what_went_elsewhere_does_not_count(self) -> None:
        sticky = StickyPartitions(scripted(2), batch_size=100)
        sticky.partition(4, ALL)
        sticky.produced(3, 500, 4, ALL, batch_is_full=True)
        assert sticky.partition(4, ALL) == 2

    def test_partitions_without_a_leader_are_left_out_while_there_are_others(self) -> None:
        assert StickyPartitions(scripted(1), 100).partition(4, (1, 3)) == 3
        assert StickyPartitions(scripted(2), 100).partition(4, ()) == 2

    def test_it_leaves_a_partition_that_lost_its_leader(self) -> None:
        sticky = StickyPartitions(scripted(2, 1), 100)
        sticky.partition(4, ALL)
        sticky.leaders_changed(4, (2, 3))
        assert sticky.partition(4, (2, 3)) == 2
        sticky.leaders_changed(4, ())
        assert sticky.partition(4, ()) == 2
        sticky.leaders_changed(4, (0, 3))
        assert sticky.partition(4, (0, 3)) == 3

    def test_a_topic_that_came_back_smaller_is_chosen_from_anew(self) -> None:
        sticky = StickyPartitions(scripted(10, 9, 1), 1)
        sticky.update_loads([PartitionLoad(0, 9), PartitionLoad(3, 0)], 4, 0)
        assert sticky.partition(4, ALL) == 3
        assert sticky.partition(2, (0, 1)) == 1

    def test_a_longer_queue_has_fewer_chances(self) -> None:
        """The example of KIP-794: queues of 0, 3 and 1 batches turn round to 4, 1 and 3 chances of 8."""
        chosen = []
        for draw in range(8):
            below = scripted(draw)
            sticky = StickyPartitions(below, 100)
            sticky.update_loads([PartitionLoad(0, 0), PartitionLoad(1, 3), PartitionLoad(2, 1)], 3, 0)
            chosen.append(sticky.partition(3, (0, 1, 2)))
            assert below.bounds == [8]
        assert chosen == [0, 0, 0, 0, 1, 2, 2, 2]

    def test_equal_queues_are_chosen_from_evenly(self) -> None:
        below = scripted(3)
        sticky = StickyPartitions(below, 100)
        sticky.update_loads([PartitionLoad(one, 5) for one in ALL], 4, 0)
        assert sticky.partition(4, ALL) == 3
        assert below.bounds == [4]

    def test_a_partition_whose_broker_takes_nothing_is_left_out(self) -> None:
        loads = [PartitionLoad(0, 2, stalled_ms=101), PartitionLoad(1, 2, stalled_ms=100), PartitionLoad(2, 2)]
        chosen = [self._first(loads, draw, availability_timeout_ms=100) for draw in range(2)]
        assert chosen == [1, 2]
        assert self._first(loads, 0, availability_timeout_ms=0) == 0

    def test_where_all_are_stalled_all_are_chosen_from(self) -> None:
        loads = [PartitionLoad(one, one, stalled_ms=500) for one in range(3)]
        assert [self._first(loads, draw, availability_timeout_ms=100) for draw in range(3)] == [0, 1, 2]

    @staticmethod
    def _first(loads: Sequence[PartitionLoad], draw: int, *, availability_timeout_ms: int) -> int:
        sticky = StickyPartitions(scripted(draw), 100)
        sticky.update_loads(loads, 3, availability_timeout_ms)
        return sticky.partition(3, (0, 1, 2))

    def test_records_are_spread_by_how_partitions_keep_up(self) -> None:
        sticky = StickyPartitions(Random(7).randrange, batch_size=1)
        sticky.update_loads([PartitionLoad(0, 9), PartitionLoad(1, 4), PartitionLoad(2, 0)], 3, 0)
        chosen: Counter[int] = Counter()
        for _ in range(17_000):
            partition = sticky.partition(3, (0, 1, 2))
            chosen[partition] += 1
            sticky.produced(partition, 1, 3, (0, 1, 2), batch_is_full=True)
        for partition, chances in ((0, 1), (1, 6), (2, 10)):
            assert abs(chosen[partition] / 17_000 - chances / 17) < 0.02


class TestPartitioning:
    def test_a_key_decides_and_no_key_leaves_it_open(self) -> None:
        partitioning = Partitioning(scripted(), batch_size=100)
        assert partitioning.choose("a", b"21", None, 7, range(7)) == partition_of_key(b"21", 7)
        assert partitioning.choose("a", b"", None, 7, range(7)) == partition_of_key(b"", 7)
        assert partitioning.choose("a", None, None, 7, range(7)) is None

    def test_keys_can_be_ignored(self) -> None:
        assert Partitioning(scripted(), batch_size=100, ignore_keys=True).choose("a", b"21", None, 7, ALL) is None

    def test_ones_own_partitioner_comes_first(self) -> None:
        asked: list[object] = []

        def own(topic: str, key: bytes | None, value: bytes | None, count: int, available: Sequence[int]) -> int | None:
            asked.append((topic, key, value, count, tuple(available)))
            return 3 if key else None

        partitioning = Partitioning(scripted(), batch_size=100, own=own)
        assert partitioning.choose("a", b"k", b"v", 4, ALL) == 3
        assert partitioning.choose("a", None, b"v", 4, ALL) is None
        assert asked == [("a", b"k", b"v", 4, ALL), ("a", None, b"v", 4, ALL)]

    @pytest.mark.parametrize("chosen", [-1, 4])
    def test_a_partition_that_is_not_there_is_refused(self, chosen: int) -> None:
        partitioning = Partitioning(scripted(), batch_size=100, own=lambda *_: chosen)
        with pytest.raises(IllegalState, match=f"chose {chosen} of topic 'a', which has 0 to 3"):
            partitioning.choose("a", b"k", b"v", 4, ALL)

    def test_each_topic_has_its_own_sticky_partition(self) -> None:
        partitioning = Partitioning(scripted(1, 2, 3), batch_size=100)
        assert partitioning.sticky("a").partition(4, ALL) == 1
        assert partitioning.sticky("b").partition(4, ALL) == 2
        assert partitioning.sticky("a").partition(4, ALL) == 1
        partitioning.forget("a")
        assert partitioning.sticky("a").partition(4, ALL) == 3

    def test_queues_count_where_the_choice_is_adaptive(self) -> None:
        loads = [PartitionLoad(0, 5), PartitionLoad(1, 0)]
        for adaptive, bound in ((True, 7), (False, 2)):
            below = scripted(1)
            partitioning = Partitioning(below, batch_size=100, adaptive=adaptive)
            partitioning.update_loads("a", loads, 2)
            assert partitioning.sticky("a").partition(2, (0, 1)) == 1
            assert below.bounds == [bound]


class TestHotKeys:
    def test_a_hot_key_is_spread_and_the_others_stay(self) -> None:
        choose = HotKeyPartitioner(spread=3)
        chosen: Counter[int | None] = Counter()
        for turn in range(20_000):
            cold = b"cold-%d" % (turn % 5_000)
            assert choose("a", cold, None, 12, ()) == partition_of_key(cold, 12)
            if turn % 5 == 0:
                chosen[choose("a", b"hot", None, 12, ())] += 1
        places = choose.partitions_of(b"hot", 12)
        assert places[0] == partition_of_key(b"hot", 12)
        assert [(place - places[0]) % 12 for place in places] == [0, 4, 8]
        assert set(chosen) == set(places)
        assert min(chosen.values()) > 1_000

    def test_before_a_thousand_records_nothing_is_hot(self) -> None:
        choose = HotKeyPartitioner()
        assert {choose("a", b"hot", None, 12, ()) for _ in range(999)} == {partition_of_key(b"hot", 12)}
        assert len({choose("a", b"hot", None, 12, ()) for _ in range(10)}) == 4

    def test_a_key_stays_hot_as_long_as_it_comes_often(self) -> None:
        choose = HotKeyPartitioner(window=2_000)
        for turn in range(10_000):
            chosen = choose("a", b"hot", None, 12, ()), choose("a", b"hot", None, 12, ())
            choose("a", b"cold-%d" % turn, None, 12, ())
            assert turn < 500 or chosen[0] != chosen[1]

    def test_a_key_cools_down_again(self) -> None:
        choose = HotKeyPartitioner(window=2_000)
        for _ in range(1_990):
            choose("a", b"hot", None, 12, ())
        for turn in range(20_000):
            choose("a", b"cold-%d" % turn, None, 12, ())
        assert {choose("a", b"hot", None, 12, ()) for _ in range(20)} == {partition_of_key(b"hot", 12)}

    def test_records_without_a_key_are_left_to_the_sticky_partition(self) -> None:
        assert HotKeyPartitioner()("a", None, b"v", 12, ()) is None

    @pytest.mark.parametrize("partition_count", [1, 2, 3, 4, 5, 9])
    def test_there_may_be_fewer_partitions_than_it_spreads_to(self, partition_count: int) -> None:
        places = HotKeyPartitioner(spread=4).partitions_of(b"hot", partition_count)
        assert len(set(places)) == min(4, partition_count)
        assert set(places) <= set(range(partition_count))

    def test_memory_is_bounded_and_no_count_is_too_high(self) -> None:
        random = Random(1)
        frequent = FrequentKeys(capacity=50, window=10**9)
        truth: Counter[int] = Counter()
        for _ in range(20_000):
            key = int(random.paretovariate(1.1))
            truth[key] += 1
            assert frequent.add(key) <= truth[key]
            assert len(frequent) <= 50
        assert truth[1] - frequent.add(1) < 20_000 / 50 + 1

    def test_settings_that_cannot_work_are_refused(self) -> None:
        for wrong in ({"share": 0.0}, {"share": 1.1}, {"spread": 0}, {"capacity": 10}):
            with pytest.raises(ValueError, match="must be"):
                HotKeyPartitioner(**wrong)


def test_what_the_option_stands_for() -> None:
    def own(*_: object) -> int:
        return 0

    assert own_partitioner(None) is None
    assert isinstance(own_partitioner("round_robin"), RoundRobinPartitioner)
    assert isinstance(own_partitioner("hot_key"), HotKeyPartitioner)
    assert isinstance(own_partitioner(HotKeyPartitioner), HotKeyPartitioner)
    assert own_partitioner(own) is own
