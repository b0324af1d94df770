"""Owners of partitions: stored by partition number, removed by owner."""

from __future__ import annotations

from kohort.coordinator.consumer.owners import MOST_PARTITIONS, Owner, Owners
from kohort.coordinator.consumer.partitions import NOTHING, Partitions
from kohort.model import UUID

T, U = UUID(int=1), UUID(int=2)


def some(topic_id: UUID, *numbers: int) -> Partitions:
    return Partitions({topic_id: frozenset(numbers)})


def test_a_partition_is_its_owners_until_that_one_gives_it_up() -> None:
    owners = Owners()
    owners.give("a", [(T, 3, 5), (T, 0, 4), (U, 1, 5)])
    assert owners.of(T, 3) == Owner("a", 5) and owners.of(T, 0) == Owner("a", 4)
    assert set(owners) == {(T, 0), (T, 3), (U, 1)}
    assert owners.taken(some(T, 0, 1, 9)) == some(T, 0)
    owners.give("b", [(T, 3, 6)])
    owners.release("a", some(T, 0, 3))  # 3 is b's by now
    assert set(owners) == {(T, 3), (U, 1)} and owners.of(T, 3) == Owner("b", 6)


def test_unassigned_partitions_have_no_owner() -> None:
    owners = Owners()
    owners.give("a", [(T, 1, 2)])
    assert [owners.of(T, n) for n in (-1, 0, 2)] == [None, None, None] and owners.of(U, 0) is None
    assert owners.taken(some(U, 0)) == owners.taken(some(T, 0, 2)) == NOTHING
    owners.release("a", some(U, 1))
    owners.release("a", some(T, 7))
    assert set(owners) == {(T, 1)}
    owners.release("a", Partitions({U: frozenset({1}), T: frozenset({1})}))
    assert not list(owners)


def test_a_topic_without_owners_takes_no_memory() -> None:
    owners = Owners()
    owners.give("a", [(T, 99_999, 2)])
    owners.release("a", some(T, 99_999))
    assert owners.of(T, 99_999) is None and not list(owners)
    assert not owners._topics


def test_a_damaged_record_takes_no_room_either() -> None:
    owners = Owners()
    owners.give("a", [(T, MOST_PARTITIONS, 2), (T, -1, 2), (T, 2**31 - 1, 2)])
    assert not list(owners)
