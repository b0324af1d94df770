"""`uniform`: even, with as few moves as that allows, and near to the members between equals."""

from __future__ import annotations

from math import ceil

from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor.server import SERVER_ASSIGNORS, MemberShape
from tests.assignor.server.groups import Group, changes, histories, moved, steady, topic

UNIFORM = SERVER_ASSIGNORS["uniform"]


def fewest_moves(group: Group) -> int:
    """How many of the partitions that the members have must move, at the least, when all ask for the same topics."""
    exist = {(t, n) for t, shape in group.topics.items() for n in range(shape.partitions)}
    has = {
        member_id: sum((t, n) in exist for t, numbers in group.targets.get(member_id, {}).items() for n in numbers)
        for member_id in group.members
    }
    quota, spare = divmod(len(exist), len(has))
    kept = sum(min(load, quota) for load in has.values()) + min(spare, sum(load > quota for load in has.values()))
    return sum(has.values()) - kept


@steady
@given(group=histories(UNIFORM, alike=True))
def test_with_equal_subscriptions_shares_differ_by_at_most_one_and_moves_are_the_fewest(group: Group) -> None:
    before, fewest = dict(group.targets), fewest_moves(group) if group.members else 0
    group.update()
    if group.members:
        assert max(group.load().values()) - min(group.load().values()) <= 1
        assert moved(before, group.targets) == fewest


@steady
@given(group=histories(UNIFORM, alike=True, racks=True))
def test_racks_cost_neither_evenness_nor_moves(group: Group) -> None:
    before, fewest = dict(group.targets), fewest_moves(group) if group.members else 0
    group.update()
    if group.members:
        assert max(group.load().values()) - min(group.load().values()) <= 1
        assert moved(before, group.targets) == fewest


@steady
@given(data=st.data())
def test_with_different_subscriptions_no_single_move_makes_two_members_more_alike(data: st.DataObject) -> None:
    group = data.draw(histories(UNIFORM, racks=data.draw(st.booleans())))
    group.update()
    group.check_balanced()


@steady
@given(group=histories(UNIFORM, alike=True))
def test_one_that_leaves_moves_only_what_it_had(group: Group) -> None:
    group.update()
    if group.members:
        before = dict(group.targets)
        group.leave(min(group.members))
        group.update()
        assert moved(before, group.targets) == sum(map(len, before[min(before)].values())) * bool(group.members)


@steady
@given(group=histories(UNIFORM, alike=True))
def test_one_that_joins_moves_only_its_own_share(group: Group) -> None:
    group.update()
    before = dict(group.targets)
    group.join("newcomer", 0, 1, 2, 3)
    group.update()
    assert moved(before, group.targets) <= ceil(len(group.owned()) / len(group.members))


@steady
@given(data=st.data())
def test_changes_one_by_one_end_as_balanced_as_all_at_once(data: st.DataObject) -> None:
    group = data.draw(histories(UNIFORM))
    for _ in range(data.draw(st.integers(1, 10))):
        data.draw(changes(group))
        group.update()
        group.check_complete()
        group.check_balanced()


def test_a_member_reads_from_its_own_rack_where_that_costs_no_evenness() -> None:
    group = Group(UNIFORM)
    group.set_topic(0, 12, ["A"] * 6 + ["B"] * 6)
    for number in range(4):
        group.join(f"m{number}", 0, shape=MemberShape(frozenset(), rack="BA"[number % 2]))
    group.update()
    assert set(group.load().values()) == {3}
    assert group.targets["m1"][topic(0)] | group.targets["m3"][topic(0)] == set(range(6))
    assert group.plan.reason("m0") == (
        "3 of 12 partitions; members that ask for the same have 3; 3 of them have a replica in rack B"
    )


def test_partitions_of_every_topic_are_spread_over_the_members() -> None:
    # A topic that carries most of the traffic is then shared by all.
    group = Group(UNIFORM)
    for number in range(4):
        group.set_topic(number, 4)
    for number in range(4):
        group.join(f"m{number}", 0, 1, 2, 3)
    group.update()
    assert all(len(numbers) == 1 for target in group.targets.values() for numbers in target.values())


def test_a_group_of_different_subscriptions_stays_balanced_when_a_member_leaves() -> None:
    group = Group(UNIFORM)
    group.set_topic(0, 2)
    group.set_topic(1, 9)
    group.join("both", 0, 1)
    group.join("first", 0)
    group.join("second", 1)
    group.update()
    assert group.load() == {"both": 4, "first": 2, "second": 5}
    group.leave("first")
    group.update()
    assert sorted(group.load().values()) == [5, 6]
