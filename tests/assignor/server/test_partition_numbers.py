"""Partition numbers in little memory are sets like any other."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable, Set

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor.server import PartitionNumbers, kept

numbers = st.frozensets(st.integers(0, 2**31 - 1) | st.integers(0, 9), max_size=12)
Form = Callable[[frozenset[int]], Set[int]]


@pytest.mark.parametrize(
    ("left", "right"),
    [(PartitionNumbers, PartitionNumbers), (PartitionNumbers, frozenset), (frozenset, PartitionNumbers)],
)
@given(numbers, numbers)
def test_the_algebra_is_that_of_sets(left: Form, right: Form, a: frozenset[int], b: frozenset[int]) -> None:
    mine, theirs = left(a), right(b)
    for result, expected in ((mine & theirs, a & b), (mine | theirs, a | b), (mine - theirs, a - b)):
        assert type(result) is frozenset and result == expected
    assert (mine == theirs, mine != theirs) == (a == b, a != b)
    assert (mine <= theirs, mine >= theirs, mine < theirs, mine > theirs) == (a <= b, a >= b, a < b, a > b)
    assert mine.isdisjoint(theirs) == a.isdisjoint(b)


@given(numbers, numbers)
def test_a_set_has_its_numbers_in_order_and_no_others(a: frozenset[int], others: frozenset[int]) -> None:
    mine = PartitionNumbers(a)
    assert list(mine) == sorted(a)
    assert len(mine) == len(a) and bool(mine) == bool(a)
    assert {number for number in a | others if number in mine} == a
    assert None not in mine
    assert mine == a and hash(mine) == hash(a)
    assert mine != sorted(a)
    assert pickle.loads(pickle.dumps(mine)) == mine


def test_a_set_that_is_kept_can_no_longer_be_changed() -> None:
    for size in (2, 20):
        mine = set(range(size))
        keeps = kept(mine)
        mine.add(100)
        assert keeps == frozenset(range(size))
        assert kept(keeps) is keeps


def test_ten_numbers_take_a_fifth_of_the_memory() -> None:
    def taken(form: Form) -> int:
        tracemalloc.start()
        try:
            held = [form(frozenset(range(first, first + 10))) for first in range(1_000, 101_000, 100)]
            return tracemalloc.get_traced_memory()[0] // len(held)
        finally:
            tracemalloc.stop()

    assert taken(kept) < taken(frozenset) / 5
