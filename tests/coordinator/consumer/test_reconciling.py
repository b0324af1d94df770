from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.consumer.member import ConsumerMember
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.coordinator.consumer.reconciling import reconcile, withdraw
from kohort.coordinator.consumer.states import MemberState

ORDERS, PAYMENTS = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED = (
    MemberState.STABLE,
    MemberState.UNREVOKED_PARTITIONS,
    MemberState.UNRELEASED_PARTITIONS,
)


def orders(*numbers: int) -> Partitions:
    return Partitions.of([(ORDERS, numbers)])


def free(wanted: Partitions) -> Partitions:
    return NOTHING


SETTLED = ConsumerMember("a", epoch=1, previous_epoch=0, assigned=orders(0, 1))


def test_a_member_keeps_its_epoch_until_it_reports_the_revocation() -> None:
    # Were the epoch to move first, two members could both commit for orders-1.
    told = reconcile(SETTLED, orders(0), target_epoch=2, owned=orders(0, 1), taken=free)
    assert (told.state, told.epoch, told.assigned, told.revoking) == (UNREVOKED, 1, orders(0), orders(1))
    assert reconcile(told, orders(0), target_epoch=2, owned=None, taken=free) is told
    assert reconcile(told, orders(0), target_epoch=2, owned=orders(0, 1), taken=free) is told
    done = reconcile(told, orders(0), target_epoch=2, owned=orders(0), taken=free)
    assert (done.state, done.epoch, done.assigned, done.revoking) == (STABLE, 2, orders(0), NOTHING)


def test_nothing_reported_proves_no_revocation() -> None:
    told = reconcile(SETTLED, orders(0), target_epoch=2, owned=None, taken=free)
    assert told.state is UNREVOKED


def test_a_member_that_revoked_by_itself_is_not_asked_to() -> None:
    done = reconcile(SETTLED, orders(0), target_epoch=2, owned=orders(0), taken=free)
    assert (done.state, done.epoch, done.assigned) == (STABLE, 2, orders(0))


def test_a_member_waits_at_the_new_epoch_for_what_others_have() -> None:
    waits = reconcile(SETTLED, orders(0, 1, 2, 3), target_epoch=2, owned=None, taken=lambda wanted: wanted & orders(3))
    assert (waits.state, waits.epoch, waits.assigned) == (UNRELEASED, 2, orders(0, 1, 2))
    done = reconcile(waits, orders(0, 1, 2, 3), target_epoch=2, owned=None, taken=free)
    assert (done.state, done.epoch, done.assigned) == (STABLE, 2, orders(0, 1, 2, 3))
    # If it received neither answer, it repeats the heartbeat that it sent at epoch 1.
    assert (waits.previous_epoch, done.previous_epoch) == (1, 1)


def test_a_member_that_waits_in_vain_is_left_as_it_is() -> None:
    # Its previous epoch stays what it was, too: the answer that told the new one may be lost more than once.
    waits = reconcile(SETTLED, orders(0, 1, 2), target_epoch=2, owned=None, taken=lambda wanted: wanted & orders(2))
    assert waits.previous_epoch == 1
    assert reconcile(waits, orders(0, 1, 2), target_epoch=2, owned=None, taken=lambda w: w & orders(2)) is waits


def test_a_newer_target_is_taken_up_only_after_the_report() -> None:
    told = reconcile(SETTLED, orders(0), target_epoch=2, owned=None, taken=free)
    assert reconcile(told, NOTHING, target_epoch=3, owned=orders(0, 1), taken=free) is told
    again = reconcile(told, NOTHING, target_epoch=3, owned=orders(0), taken=free)
    assert (again.state, again.epoch, again.assigned, again.revoking) == (UNREVOKED, 1, NOTHING, orders(0))


def test_a_member_does_not_wait_for_its_own_revocation() -> None:
    # KAFKA-19449: the partition counts as taken, by the member itself.
    told = reconcile(SETTLED, orders(0), target_epoch=2, owned=None, taken=free)
    done = reconcile(told, orders(0, 1), target_epoch=3, owned=orders(0), taken=lambda wanted: wanted & orders(1))
    assert (done.state, done.epoch, done.assigned) == (STABLE, 3, orders(0, 1))


def test_partitions_of_another_topic_are_another_matter() -> None:
    target = Partitions.of([(PAYMENTS, [0, 1])])
    told = reconcile(SETTLED, target, target_epoch=2, owned=None, taken=free)
    assert (told.assigned, told.revoking) == (NOTHING, orders(0, 1))
    done = reconcile(told, target, target_epoch=2, owned=target, taken=free)
    assert (done.state, done.assigned) == (STABLE, target)


def test_a_member_in_a_state_of_the_future_begins_again_once_it_owns_nothing() -> None:
    unknown = replace(SETTLED, state=MemberState.UNKNOWN)
    done = reconcile(unknown, orders(1, 2), target_epoch=2, owned=NOTHING, taken=free)
    assert (done.state, done.epoch, done.assigned) == (STABLE, 2, orders(1, 2))


def test_unsubscribed_partitions_must_be_revoked_too() -> None:
    both = Partitions.of([(ORDERS, [0, 1]), (PAYMENTS, [0])])
    member = replace(SETTLED, state=UNREVOKED, assigned=both, revoking=orders(2))
    owes = withdraw(member, {ORDERS})
    assert owes.assigned == orders(0, 1)
    assert owes.revoking == Partitions.of([(ORDERS, [2]), (PAYMENTS, [0])])
    assert withdraw(member, {ORDERS, PAYMENTS}) is member


partition_sets = st.frozensets(st.integers(0, 7)).map(lambda numbers: orders(*numbers))


@given(assigned=partition_sets, target=partition_sets, others=partition_sets, owned=st.none() | partition_sets)
def test_a_step_never_gives_what_another_has_nor_loses_what_it_has(
    assigned: Partitions, target: Partitions, others: Partitions, owned: Partitions | None
) -> None:
    others = others - assigned
    member = replace(SETTLED, assigned=assigned)
    moved = reconcile(member, target, target_epoch=2, owned=owned, taken=lambda wanted: wanted & (others | assigned))
    assert not moved.assigned.overlaps(others)
    assert moved.assigned <= assigned | target
    assert not moved.assigned.overlaps(moved.revoking)
    given_up = assigned - (moved.assigned | moved.revoking)
    assert owned is not None or not given_up
    assert owned is None or not given_up.overlaps(owned)
    assert (moved.epoch == 2) == (moved.state is not UNREVOKED)


@given(assigned=partition_sets, target=partition_sets)
def test_a_member_that_reports_correctly_converges_in_two_steps(assigned: Partitions, target: Partitions) -> None:
    member = replace(SETTLED, assigned=assigned)
    for _ in range(2):
        member = reconcile(
            member, target, target_epoch=2, owned=member.assigned, taken=lambda wanted: wanted & assigned
        )
    assert (member.state, member.epoch, member.assigned, member.revoking) == (STABLE, 2, target, NOTHING)
