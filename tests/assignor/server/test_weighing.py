"""`lag`, `rate` and `weighted` balance the load of partitions, and move nothing for small differences."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor.server import SERVER_ASSIGNORS, LoadAware, MemberShape, ServerAssignor
from tests.assignor.server.groups import Group, histories, moved, steady, topic

LAG, RATE, WEIGHTED = (SERVER_ASSIGNORS[name] for name in ("lag", "rate", "weighted"))
loaded = pytest.mark.parametrize("assignor", [LAG, RATE], ids=["lag", "rate"])


def tell(group: Group, loads: Mapping[int, float], number: int = 0) -> None:
    assert isinstance(group.plan, LoadAware)
    group.plan.set_loads(topic(number), loads.items())


def of_two(assignor: ServerAssignor, partitions: int, loads: Mapping[int, float]) -> Group:
    group = Group(assignor)
    group.set_topic(0, partitions)
    group.join("a", 0)
    group.join("b", 0)
    tell(group, loads)
    group.update()
    return group


def borne(group: Group, member_id: str, loads: Mapping[int, float]) -> float:
    return sum(loads.get(number, 0) for number in group.targets[member_id].get(topic(0), ()))


@loaded
def test_the_largest_loads_are_shared_first(assignor: ServerAssignor) -> None:
    loads = {0: 800, 1: 500, 2: 300, 3: 5, 4: 5}
    group = of_two(assignor, 8, loads)
    assert sorted(borne(group, member_id, loads) for member_id in "ab") == [805, 805]


@loaded
def test_idle_partitions_are_shared_like_any(assignor: ServerAssignor) -> None:
    assert of_two(assignor, 8, {}).load() == {"a": 4, "b": 4}
    assert of_two(assignor, 9, {0: 1000, 1: 1000}).load() in ({"a": 4, "b": 5}, {"a": 5, "b": 4})


@loaded
def test_nothing_moves_while_all_loads_are_within_the_tolerance(assignor: ServerAssignor) -> None:
    group = of_two(assignor, 8, dict.fromkeys(range(8), 100))
    tell(group, dict.fromkeys(group.targets["a"][topic(0)], 120))
    assert group.update() == {}


@loaded
def test_an_overloaded_member_is_relieved_by_few_moves(assignor: ServerAssignor) -> None:
    group = of_two(assignor, 8, dict.fromkeys(range(8), 100))
    busy = sorted(group.targets["a"][topic(0)])
    before = dict(group.targets)
    tell(group, dict.fromkeys(busy, 300))
    group.update()
    loads = dict.fromkeys(range(8), 100) | dict.fromkeys(busy, 300)
    assert moved(before, group.targets) == 1
    assert sorted(borne(group, member_id, loads) for member_id in "ab") == [700, 900]


@loaded
def test_two_partitions_are_swapped_where_no_single_one_fits(assignor: ServerAssignor) -> None:
    loads: dict[int, float] = {0: 1000, 1: 900, 2: 500, 3: 400}
    group = of_two(assignor, 4, {})
    group.targets = {"a": {topic(0): frozenset({0, 1})}, "b": {topic(0): frozenset({2, 3})}}
    group.fail_over()
    tell(group, loads)
    group.update()
    assert sorted(borne(group, member_id, loads) for member_id in "ab") == [1400, 1400]


@loaded
def test_one_hot_partition_is_not_passed_round(assignor: ServerAssignor) -> None:
    # Any owner of it is overloaded, and no move helps.
    group = of_two(assignor, 2, {0: 10_000, 1: 1})
    for load in (20_000, 40_000, 10):
        tell(group, {0: load})
        assert group.update() == {}


@loaded
def test_one_hot_partition_does_not_unsettle_the_others(assignor: ServerAssignor) -> None:
    # It raises the mean for all; were that the measure, everybody else would be far below it.
    group = Group(assignor)
    group.set_topic(0, 41)
    for number in range(5):
        group.join(f"m{number}", 0)
    loads = dict.fromkeys(range(1, 41), 100.0) | {0: 1e6}
    tell(group, loads)
    group.update()
    assert sorted(group.load().values()) == [1, 10, 10, 10, 10]
    (hot,) = (member_id for member_id, load in group.load().items() if load == 1)
    assert group.plan.reason(hot).endswith("that partition alone is more than a fair share")
    tell(group, {number: load * (1.1 if number % 2 else 0.9) for number, load in loads.items()})
    assert group.update() == {}


@loaded
def test_a_newcomer_gets_its_share_from_many(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.set_topic(0, 110)
    for number in range(10):
        group.join(f"m{number}", 0)
    tell(group, dict.fromkeys(range(110), 7))
    group.update()
    before = dict(group.targets)
    group.join("newcomer", 0)
    group.update()
    assert 9 <= moved(before, group.targets) == group.load()["newcomer"] <= 10
    assert min(group.load().values()) >= 9


@pytest.mark.parametrize("assignor", [LAG, RATE, WEIGHTED], ids=["lag", "rate", "weighted"])
def test_members_with_very_many_partitions_share_them_with_a_newcomer(assignor: ServerAssignor) -> None:
    # No single partition is worth a move beside what the newcomer lacks; together they are.
    group = Group(assignor)
    group.set_topic(0, 3_000)
    for number in range(3):
        group.join(f"m{number}", 0)
    group.update()
    group.join("newcomer", 0)
    group.update()
    group.check_complete()
    assert group.load()["newcomer"] == 750


@loaded
@pytest.mark.parametrize("load", [-1, nan, inf])
def test_a_load_that_is_none_is_refused(assignor: ServerAssignor, load: float) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        tell(of_two(assignor, 2, {}), {0: load})


@loaded
def test_loads_of_what_does_not_exist_are_passed_over(assignor: ServerAssignor) -> None:
    group = of_two(assignor, 2, {7: 5, -1: 5})
    tell(group, {0: 5}, number=3)
    assert group.update() == {}


@loaded
@steady
@given(data=st.data())
def test_whatever_the_loads_an_update_ends_and_the_next_has_nothing_to_do(
    assignor: ServerAssignor, data: st.DataObject
) -> None:
    group = data.draw(histories(assignor, alike=True))
    sizes = {number: group.topics[topic(number)].partitions for number in range(4) if topic(number) in group.topics}
    loads = {
        number: dict(enumerate(data.draw(st.lists(st.sampled_from([0, 1, 3, 50, 1000, 1e6]), max_size=size))))
        for number, size in sizes.items()
    }
    for number, load in loads.items():
        tell(group, load, number)
    group.update()
    group.check_complete()
    group.fail_over()
    for number, load in loads.items():
        tell(group, load, number)
    assert group.update() == {}


def weigh(group: Group, member_id: str, weight: float) -> None:
    group.join(member_id, 0, shape=MemberShape(frozenset(), weight=weight))


def test_a_member_gets_as_many_partitions_as_its_weight_among_the_others() -> None:
    group = Group(WEIGHTED)
    group.set_topic(0, 100)
    for number in range(5):
        weigh(group, f"old-{number}", 19)
    weigh(group, "new", 5)
    group.update()
    assert group.load()["new"] == 5
    assert {load for member_id, load in group.load().items() if member_id != "new"} == {19}
    assert group.plan.reason("new") == "5 partitions; its fair share by weight 5 is 5.0"


def test_a_new_version_gets_more_step_by_step_and_little_else_moves() -> None:
    group = Group(WEIGHTED)
    group.set_topic(0, 100)
    for number in range(4):
        weigh(group, f"old-{number}", 10)
    group.update()
    for weight, expected in ((2, 5), (10, 20), (40, 50)):
        weigh(group, "new", weight)
        before = dict(group.targets)
        had = group.load().get("new", 0)
        group.update()
        assert group.load()["new"] == expected
        assert moved(before, group.targets) == expected - had


@pytest.mark.parametrize("weight", [0, -1, nan, inf])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="above 0"):
        weigh(Group(WEIGHTED), "m", weight)


@steady
@given(data=st.data())
def test_weighted_ends_where_no_single_move_brings_two_members_nearer(data: st.DataObject) -> None:
    group = data.draw(histories(WEIGHTED))
    for member_id in list(group.members):
        shape = MemberShape(frozenset(), weight=data.draw(st.sampled_from([0.05, 0.5, 1, 1, 1, 3, 20])))
        group.join(member_id, *(t.int - 1 for t in group.members[member_id].topics), shape=shape)
    group.update()
    group.check_complete()
    load = group.load()
    for giver, target in group.targets.items():
        for receiver in group.members:
            if target.keys() & group.wants(receiver) and giver != receiver:
                gives = (load[giver] - 0.5) / group.members[giver].weight
                takes = (load[receiver] + 0.5) / group.members[receiver].weight
                assert gives <= takes * (1 + 1e-9), (giver, receiver, load)


@loaded
def test_one_update_moves_a_thousand_partitions_and_the_next_continues(assignor: ServerAssignor) -> None:
    # All that it could move at once would hold up an event loop for half a second in a group of 100,000 partitions.
    group = Group(assignor)
    group.set_topic(0, 6_000)
    for number in range(100):
        group.join(f"m{number:03}", 0)
    group.update()
    half = [n for member_id in sorted(group.targets)[:50] for n in group.targets[member_id][topic(0)]]
    tell(group, dict.fromkeys(half, 100.0))
    moves = []
    while True:
        before = dict(group.targets)
        group.update()
        moves.append(moved(before, group.targets))
        if not moves[-1]:
            break
    assert 1_000 <= max(moves) <= 1_000 + 6_000 // 100 and len(moves) > 2
    loads = [borne(group, member_id, dict.fromkeys(half, 100.0)) for member_id in group.targets]
    assert max(loads) <= 1.25 * sum(loads) / 100
