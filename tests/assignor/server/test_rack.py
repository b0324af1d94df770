"""`rack`: as even as `uniform`, and the least that is read across racks among all such targets."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor.server import SERVER_ASSIGNORS, MemberShape
from tests.assignor.server.groups import RACKS, Group, histories, moved, steady, topic

RACK, UNIFORM = SERVER_ASSIGNORS["rack"], SERVER_ASSIGNORS["uniform"]


def far(group: Group) -> int:
    """How many partitions are read across racks."""
    shapes = (
        (member_id, topic_id, number)
        for member_id, t in group.targets.items()
        for topic_id in t
        for number in t[topic_id]
    )
    return sum(
        group.members[member_id].rack not in (group.topics[topic_id].racks or ())[number]
        for member_id, topic_id, number in shapes
    )


def joined(group: Group, racks: str) -> None:
    for number, rack in enumerate(racks):
        group.join(f"m{number}", 0, shape=MemberShape(frozenset(), rack=rack))


def fewest_far(placed: list[str], racks: str) -> int:
    """By trying all."""
    fewest = len(placed)
    for owners in product(range(len(racks)), repeat=len(placed)):
        loads = [owners.count(member) for member in range(len(racks))]
        if max(loads) - min(loads) <= 1:
            fewest = min(fewest, sum(racks[owner] not in near for owner, near in zip(owners, placed, strict=True)))
    return fewest


@steady
@given(
    placed=st.lists(st.sampled_from(["A", "B", "C", "AB", "BC", "AC"]), min_size=1, max_size=6),
    racks=st.text("ABC", min_size=1, max_size=4),
    given=st.data(),
)
def test_no_even_target_reads_less_across_racks(placed: list[str], racks: str, given: st.DataObject) -> None:
    group = Group(RACK)
    group.set_topic(0, len(placed), placed)
    joined(group, racks)
    # From whatever was before.
    owners = given.draw(st.lists(st.integers(0, len(racks) - 1), min_size=len(placed), max_size=len(placed)))
    for number, owner in enumerate(owners):
        had = group.targets.setdefault(f"m{owner}", {}).get(topic(0), frozenset())
        group.targets[f"m{owner}"] = {topic(0): had | {number}}
    group.fail_over()
    group.update()
    group.check_complete()
    assert max(group.load().values()) - min(group.load().values()) <= 1
    assert far(group) == fewest_far(placed, racks)


@steady
@given(group=histories(RACK, racks=True))
def test_with_different_subscriptions_it_is_balanced_and_has_nothing_left_to_do(group: Group) -> None:
    group.update()
    group.check_complete()
    group.check_balanced()
    group.fail_over()
    assert group.update() == {}


@steady
@given(data=st.data())
def test_it_never_reads_more_across_racks_than_uniform(data: st.DataObject) -> None:
    placed = data.draw(st.lists(st.sets(st.sampled_from(RACKS), min_size=1, max_size=2), min_size=1, max_size=40))
    racks = data.draw(st.text(RACKS, min_size=1, max_size=8))
    groups = [Group(RACK), Group(UNIFORM)]
    for group in groups:
        group.set_topic(0, len(placed), placed)
        joined(group, racks)
        group.update()
    assert far(groups[0]) <= far(groups[1])


def test_an_exchange_may_need_three_members() -> None:
    # 0 belongs to B, whose 1 would be as near to C, whose 2 would be as near to A.
    group = Group(RACK)
    group.set_topic(0, 3, ["B", "BC", "CA"])
    joined(group, "ABC")
    group.targets = {f"m{n}": {topic(0): frozenset({n})} for n in range(3)}
    group.fail_over()
    assert far(group) == 1
    group.update()
    assert far(group) == 0
    assert group.targets == {"m0": {topic(0): {2}}, "m1": {topic(0): {0}}, "m2": {topic(0): {1}}}


def test_nothing_moves_where_no_partition_would_be_nearer() -> None:
    group = Group(RACK)
    group.set_topic(0, 4, ["A", "A", "A", "A"])
    joined(group, "AB")
    group.targets = {f"m{n}": {topic(0): frozenset({n, n + 2})} for n in range(2)}
    group.fail_over()
    assert group.update() == {}
    assert group.plan.reason("m1") == (
        "2 of 4 partitions; members that ask for the same have 2; 0 of them have a replica in rack B"
    )


def test_a_member_with_one_more_partition_may_exchange_it_for_a_nearer_one() -> None:
    group = Group(RACK)
    group.set_topic(0, 3, ["A", "A", "B"])
    joined(group, "AB")
    group.targets = {"m0": {topic(0): frozenset({0})}, "m1": {topic(0): frozenset({1, 2})}}
    group.fail_over()
    before = dict(group.targets)
    group.update()
    assert (far(group), moved(before, group.targets)) == (0, 1)


@pytest.mark.parametrize("racks", [None, [["A"], ["B"]]])
def test_without_racks_on_both_sides_it_is_uniform(racks: list[list[str]] | None) -> None:
    groups = [Group(RACK), Group(UNIFORM)]
    for group in groups:
        group.set_topic(0, 2, racks)
        group.join("a", 0)
        group.join("b", 0)
        group.update()
    assert groups[0].targets == groups[1].targets
