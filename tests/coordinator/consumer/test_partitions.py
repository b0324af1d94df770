from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from kohort.coordinator.consumer.partitions import NOTHING, Partitions

TOPICS = [UUID(int=number) for number in (1, 2, 3)]

Pairs = frozenset[tuple[UUID, int]]
pair_sets = st.frozensets(st.tuples(st.sampled_from(TOPICS), st.integers(0, 5)))


def made(pairs: Pairs) -> Partitions:
    return Partitions.of((topic_id, [number]) for topic_id, number in pairs)


@given(pair_sets, pair_sets)
def test_the_algebra_is_that_of_sets(left: Pairs, right: Pairs) -> None:
    a, b = made(left), made(right)
    assert frozenset(a & b) == left & right
    assert frozenset(a - b) == left - right
    assert frozenset(a | b) == left | right
    assert (a <= b) == (left <= right)
    assert a.overlaps(b) == bool(left & right)
    assert (a == b) == (left == right)
    assert (bool(a), len(a)) == (bool(left), len(left))
    assert all((a & b).by_topic.values()) and all((a - b).by_topic.values())


@given(pair_sets, st.sets(st.sampled_from(TOPICS)))
def test_topics_are_picked_out(pairs: Pairs, topic_ids: set[UUID]) -> None:
    partitions = made(pairs)
    picked = partitions.of_topics(topic_ids)
    assert frozenset(picked) == {pair for pair in pairs if pair[0] in topic_ids}
    assert (picked is partitions) == (picked == partitions)


def test_a_topic_that_is_named_twice_or_without_partitions_does_no_harm() -> None:
    assert Partitions.of([(TOPICS[0], [1]), (TOPICS[0], [1, 2]), (TOPICS[1], [])]) == made(
        frozenset({(TOPICS[0], 1), (TOPICS[0], 2)})
    )
    assert Partitions.of([(TOPICS[1], [])]) is NOTHING
