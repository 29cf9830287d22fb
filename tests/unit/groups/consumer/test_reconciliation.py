"""One step of a member towards its target."""

import pytest

from levada.groups.consumer.member import ConsumerGroupMember, MemberState
from levada.groups.consumer.reconciliation import Reconciliation
from levada.groups.consumer.refusals import Refusal
from levada.model.error_codes import ErrorCode
from levada.protocol.messages.consumer_group_heartbeat import RequestTopicPartitions

A, B = b"a" * 16, b"b" * 16

STABLE, UNREVOKED, UNRELEASED = MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS


def reconciliation(
    target: dict[bytes, tuple[int, ...]],
    *,
    epoch: int = 5,
    subscribed: tuple[bytes, ...] = (A, B),
    owned: dict[bytes, list[int]] | None = None,
    taken: tuple[tuple[bytes, int], ...] = (),
) -> Reconciliation:
    partitions = None
    if owned is not None:
        partitions = [RequestTopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in owned.items()]
    return Reconciliation(epoch, target, subscribed, partitions, lambda topic, index: (topic, index) in taken)


def test_what_is_free_is_taken_with_the_epoch_of_the_target() -> None:
    member = ConsumerGroupMember("m", epoch=4, assigned={A: {0: 3}})
    after = reconciliation({A: (0, 1)}).next(member, has_new_subscription=False)
    assert (after.state, after.epoch, after.previous_epoch) == (STABLE, 5, 4)
    assert after.assigned == {A: {0: 3, 1: 5}}


def test_what_others_have_is_waited_for() -> None:
    member = ConsumerGroupMember("m", epoch=4)
    after = reconciliation({A: (0, 1)}, taken=((A, 1),)).next(member, has_new_subscription=False)
    assert (after.state, after.epoch, after.assigned) == (UNRELEASED, 5, {A: {0: 5}})
    later = reconciliation({A: (0, 1)}).next(after, has_new_subscription=False)
    assert (later.state, later.epoch, later.assigned) == (STABLE, 5, {A: {0: 5, 1: 5}})


def test_nothing_is_taken_before_all_is_given_up() -> None:
    member = ConsumerGroupMember("m", epoch=4, assigned={A: {0: 3, 1: 3}})
    told = reconciliation({A: (0,), B: (0,)}).next(member, has_new_subscription=False)
    assert (told.state, told.epoch) == (UNREVOKED, 4)
    assert (told.assigned, told.revoking) == ({A: {0: 3}}, {A: {1: 3}})
    silent = reconciliation({A: (0,), B: (0,)}).next(told, has_new_subscription=False)
    assert silent == told
    busy = reconciliation({A: (0,), B: (0,)}, owned={A: [0, 1]}).next(told, has_new_subscription=False)
    assert busy == told
    done = reconciliation({A: (0,), B: (0,)}, owned={A: [0]}).next(told, has_new_subscription=False)
    assert (done.state, done.epoch) == (STABLE, 5)
    assert (done.assigned, done.revoking) == ({A: {0: 3}, B: {0: 5}}, {})


def test_what_a_member_does_not_have_need_not_be_given_up() -> None:
    member = ConsumerGroupMember("m", epoch=4, assigned={A: {0: 3, 1: 3}})
    after = reconciliation({A: (0,)}, owned={A: [0]}).next(member, has_new_subscription=False)
    assert (after.state, after.epoch, after.assigned) == (STABLE, 5, {A: {0: 3}})


def test_a_member_gets_back_what_it_is_giving_up_itself() -> None:
    member = ConsumerGroupMember("m", epoch=4, state=UNREVOKED, assigned={}, revoking={A: {1: 3}})
    after = reconciliation({A: (1,)}, owned={}, taken=((A, 1),)).next(member, has_new_subscription=False)
    assert (after.state, after.assigned) == (STABLE, {A: {1: 5}})


def test_topics_that_a_member_does_not_want_any_more_are_not_assigned_though_the_target_has_them() -> None:
    member = ConsumerGroupMember("m", epoch=4)
    after = reconciliation({A: (0,), B: (0,)}, subscribed=(B,)).next(member, has_new_subscription=True)
    assert after.assigned == {B: {0: 5}}


def test_they_are_given_up_before_there_is_a_new_target() -> None:
    member = ConsumerGroupMember("m", epoch=5, assigned={A: {0: 3}, B: {0: 4}})
    step = reconciliation({A: (0,), B: (0,)}, subscribed=(B,))
    assert step.next(member, has_new_subscription=False) is member
    after = step.next(member, has_new_subscription=True)
    assert (after.state, after.epoch, after.previous_epoch) == (UNREVOKED, 5, 5)
    assert (after.assigned, after.revoking) == ({B: {0: 4}}, {A: {0: 3}})


def test_what_is_being_given_up_grows_with_them() -> None:
    member = ConsumerGroupMember("m", epoch=4, state=UNREVOKED, assigned={A: {0: 3}}, revoking={A: {1: 3}, B: {0: 2}})
    after = reconciliation({A: (0,)}, subscribed=()).next(member, has_new_subscription=True)
    assert (after.assigned, after.revoking) == ({}, {A: {0: 3, 1: 3}, B: {0: 2}})


def test_a_member_in_an_unknown_state_begins_anew() -> None:
    member = ConsumerGroupMember("m", epoch=4, state=MemberState.UNKNOWN, assigned={A: {0: 3}})
    with pytest.raises(Refusal) as refused:
        reconciliation({A: (0,)}).next(member, has_new_subscription=False)
    assert refused.value.code == ErrorCode.FENCED_MEMBER_EPOCH
    with pytest.raises(Refusal):
        reconciliation({A: (0,)}, owned={A: [0]}).next(member, has_new_subscription=False)
    after = reconciliation({A: (0,)}, owned={}).next(member, has_new_subscription=False)
    assert (after.state, after.epoch, after.assigned) == (STABLE, 5, {A: {0: 3}})
