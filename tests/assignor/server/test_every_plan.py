"""Invariants of every server assignor, for any changes of the group in any order."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor.server import SERVER_ASSIGNORS, MemberShape, ServerAssignor
from tests.assignor.server.groups import Group, changes, histories, moved, steady, topic

every_assignor = pytest.mark.parametrize("assignor", SERVER_ASSIGNORS.values(), ids=SERVER_ASSIGNORS)


@every_assignor
@steady
@given(data=st.data())
def test_every_partition_that_somebody_wants_has_one_owner_who_wants_it(
    assignor: ServerAssignor, data: st.DataObject
) -> None:
    group = data.draw(histories(assignor, racks=data.draw(st.booleans())))
    group.update()
    group.check_complete()


@every_assignor
@steady
@given(data=st.data())
def test_an_update_without_changes_returns_nothing(assignor: ServerAssignor, data: st.DataObject) -> None:
    group = data.draw(histories(assignor, racks=True))
    group.update()
    assert group.update() == {}
    for member_id, member in group.members.items():
        group.plan.set_member(member_id, member)
    for topic_id, shape in group.topics.items():
        group.plan.set_topic(topic_id, shape)
    assert group.update() == {}


@every_assignor
@steady
@given(data=st.data())
def test_the_next_coordinator_continues_from_the_last_ones_targets(
    assignor: ServerAssignor, data: st.DataObject
) -> None:
    group = data.draw(histories(assignor, racks=True))
    group.update()
    group.fail_over()
    assert group.update() == {}
    group.check_complete()


@every_assignor
@steady
@given(data=st.data())
def test_the_same_changes_give_the_same_targets(assignor: ServerAssignor, data: st.DataObject) -> None:
    group = data.draw(histories(assignor, racks=True))
    group.update()
    group.fail_over()
    other = Group(assignor, dict(group.topics), dict(group.members), dict(group.targets))
    other.fail_over()
    seed = data.draw(st.randoms(use_true_random=False))
    for number in seed.sample(range(8), 4):
        for each in (group, other):
            each.join(f"new {number}", number % 4, 0)
    assert group.update() == other.update()


@every_assignor
@steady
@given(data=st.data())
def test_returned_targets_are_immutable(assignor: ServerAssignor, data: st.DataObject) -> None:
    group = data.draw(histories(assignor))
    group.update()
    copies = {member_id: dict(target) for member_id, target in group.targets.items()}
    told = dict(group.targets)
    for _ in range(10):
        data.draw(changes(group))
    group.update()
    assert told == copies


@every_assignor
def test_the_order_in_which_a_subscription_names_its_topics_does_not_matter(assignor: ServerAssignor) -> None:
    # These ids have one hash, so a set of them has the order in which it was made. A group makes it from a set of
    # names, which has another order in each process.
    numbers = (0, sys.hash_info.modulus, 2 * sys.hash_info.modulus)
    assert [*frozenset(map(topic, numbers))] != [*frozenset(map(topic, reversed(numbers)))]
    told = []
    for order in (numbers, (*reversed(numbers),)):
        group = Group(assignor)
        for number in numbers:
            group.set_topic(number, 1)
        group.update()
        group.join("m", *order)
        group.join("n", *order)
        changed = group.update()
        told.append([(member_id, [*target.items()]) for member_id, target in changed.items()])
    assert told[0] == told[1]


@every_assignor
def test_a_static_member_keeps_its_target_under_a_new_member_id(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.set_topic(0, 6)
    for number in range(3):
        group.join(f"m{number}", 0, shape=MemberShape(frozenset(), instance_id=f"i{number}"))
    group.update()
    before = group.targets["m1"]
    why = group.plan.reason("m1")
    group.rename("m1", "zzz")
    assert group.plan.reason("zzz") == why
    assert group.update() == {}
    assert group.targets["zzz"] == before


@every_assignor
def test_a_static_member_may_come_back_under_an_id_that_another_had(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.set_topic(0, 6)
    for number in range(3):
        group.join(f"m{number}", 0, shape=MemberShape(frozenset(), instance_id=f"i{number}"))
    group.update()
    group.rename("m1", "m0")
    group.update()
    group.check_complete()
    assert group.load() == {"m0": 3, "m2": 3}


@every_assignor
def test_an_unknown_member_may_get_another_id(assignor: ServerAssignor) -> None:
    # It joined and returned before the next target was due (KIP-1263).
    group = Group(assignor)
    group.plan.rename_member("m", "n")
    group.set_topic(0, 1)
    group.join("n", 0)
    assert group.update() == {"n": {topic(0): {0}}}


@every_assignor
def test_a_drained_member_stays_and_gets_nothing_until_it_is_wanted_again(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.set_topic(0, 6)
    for number in range(3):
        group.join(f"m{number}", 0)
    group.update()
    group.join("m1", 0, shape=replace(group.members["m1"], drained=True))
    group.update()
    assert group.targets["m1"] == {}
    group.check_complete()
    group.join("m1", 0, shape=replace(group.members["m1"], drained=False))
    group.update()
    assert group.load() == {"m0": 2, "m1": 2, "m2": 2}


@every_assignor
def test_a_topic_waits_until_somebody_may_have_it(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.join("m", 0)
    assert group.update() == {"m": {}}
    group.set_topic(0, 2)
    assert group.update() == {"m": {topic(0): {0, 1}}}
    group.join("m", 0, shape=MemberShape(frozenset(), drained=True))
    assert group.update() == {"m": {}}


@every_assignor
def test_a_recreated_topic_is_another_topic(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.set_topic(0, 2)
    group.join("m", 0)
    group.update()
    group.remove_topic(0)
    group.set_topic(1, 2)
    group.join("m", 1)
    assert group.update() == {"m": {topic(1): {0, 1}}}


@every_assignor
def test_a_member_that_left_and_returned_gets_its_target_again(assignor: ServerAssignor) -> None:
    # Its record in the log is gone, even if what it gets is what it had.
    group = Group(assignor)
    group.set_topic(0, 2)
    group.join("m", 0)
    group.update()
    group.leave("m")
    group.join("m", 0)
    assert group.update() == {"m": {topic(0): {0, 1}}}


@every_assignor
@steady
@given(data=st.data())
def test_every_member_has_a_reason(assignor: ServerAssignor, data: st.DataObject) -> None:
    group = data.draw(histories(assignor, racks=data.draw(st.booleans())))
    group.update()
    for member_id, load in group.load().items():
        said = group.plan.reason(member_id)
        wanted = [group.topics[topic_id].partitions for topic_id in group.wants(member_id) & group.topics.keys()]
        # For a topic without partitions, which no broker has, plans differ: it gives no partitions, or it is no topic.
        expected = (f"{load} ",) if any(wanted) else ("no partitions", "0 ") if wanted else ("no partitions",)
        assert said.startswith(expected)


@every_assignor
def test_an_unknown_member_has_no_reason(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.join("m", 0)
    group.leave("m")
    with pytest.raises(KeyError):
        group.plan.reason("m")


@every_assignor
def test_contradicting_claims_are_resolved_on_restoring(assignor: ServerAssignor) -> None:
    group = Group(assignor)
    group.set_topic(0, 4)
    group.join("a", 0)
    group.join("b", 0)
    group.targets = {"a": {topic(0): frozenset({0, 1, 9})}, "b": {topic(0): frozenset({1}), topic(7): frozenset({0})}}
    group.fail_over()
    before = dict(group.targets)
    group.update()
    group.check_complete()
    assert group.load() == {"a": 2, "b": 2}
    assert moved(before, group.targets) <= 1
