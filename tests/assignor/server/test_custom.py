"""A user's own assignor: found by name, told what there is, and refused where it gives what cannot be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping

import pytest

from kohort.assignor.server import (
    MemberShape,
    PartitionNumbers,
    TopicShape,
    check_targets,
    find_server_assignor,
    find_server_assignors,
)
from kohort.assignor.server.custom import CustomAssignor, MemberView
from kohort.errors import AssignorError, ConfigError
from kohort.model import UUID
from tests.assignor.server.groups import Group, topic

Given = Mapping[str, Mapping[UUID, Collection[int]]]
HERE = "tests.assignor.server.test_custom"


class ToTheFirst:
    """Assign everything to the member with the first name."""

    name = "to-the-first"

    def __init__(self) -> None:
        self.result: Callable[[Given], Given] = lambda given: given
        self.seen: Mapping[str, MemberView] = {}

    def assign(self, members: Mapping[str, MemberView], topics: Mapping[UUID, TopicShape]) -> Given:
        self.seen = members
        targets: dict[str, dict[UUID, Collection[int]]] = {}
        for topic_id, shape in topics.items():
            first = min(member_id for member_id, member in members.items() if topic_id in member.topics)
            targets.setdefault(first, {})[topic_id] = range(shape.partitions)
        return self.result(targets)


class Nameless:
    def assign(self, members: Mapping[str, MemberView], topics: Mapping[UUID, TopicShape]) -> Given:
        return {}


class WithoutAssign:
    name = "idle"


class Broken(ToTheFirst):
    def __init__(self) -> None:
        raise RuntimeError("no licence")


def group_of(own: ToTheFirst) -> Group:
    group = Group(CustomAssignor(own))
    group.set_topic(0, 2)
    group.set_topic(1, 2)
    group.join("a", 0)
    group.join("b", 0, 1)
    return group


@pytest.mark.parametrize("name", [f"{HERE}:ToTheFirst", f"{HERE}.ToTheFirst"])
def test_a_users_assignor_is_found_by_where_its_class_is(name: str) -> None:
    group = Group(find_server_assignor(name))
    group.set_topic(0, 3)
    group.join("b", 0)
    group.join("a", 0)
    assert group.update() == {"a": {topic(0): {0, 1, 2}}, "b": {}}
    assert group.plan.reason("a") == "3 partitions, by the assignor to-the-first"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere.at.all:Mine", "ModuleNotFoundError: No module named 'nowhere'"),
        (f"{HERE}:Missing", "has no attribute 'Missing'"),
        (f"{HERE}:Broken", "RuntimeError: no licence"),
        (f"{HERE}:Nameless", "has no name"),
        (f"{HERE}:WithoutAssign", "needs a method assign"),
        ("fair", "There is no server assignor 'fair': use uniform, range, "),
        (":Mine", "cannot be loaded"),
    ],
)
def test_an_unusable_assignor_is_reported_when_the_broker_starts(name: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find_server_assignor(name)


def test_kafkas_class_names_stand_for_its_assignors() -> None:
    java = "org.apache.kafka.coordinator.group.assignor."
    found = find_server_assignors([f"{java}RangeAssignor", f"{java}UniformAssignor"])
    assert [assignor.name for assignor in found] == ["range", "uniform"]


@pytest.mark.parametrize(("names", "said"), [([], "is empty"), (["range", "uniform", "range"], "twice")])
def test_a_list_of_assignors_names_each_once(names: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find_server_assignors(names)


def test_it_receives_owned_partitions_but_no_drained_members() -> None:
    own = ToTheFirst()
    group = group_of(own)
    group.update()
    group.join("c", 1, shape=MemberShape(frozenset(), drained=True))
    group.update()
    assert own.seen.keys() == {"a", "b"}
    assert own.seen["a"].target == {topic(0): {0, 1}}
    assert group.targets["c"] == {}


def test_it_receives_frozensets_after_a_failover_too() -> None:
    own = ToTheFirst()
    group = Group(CustomAssignor(own))
    group.set_topic(0, 10)
    group.join("a", 0)
    group.plan.restore({"a": {topic(0): PartitionNumbers(range(10))}})
    assert group.plan.update() == {}
    (numbers,) = own.seen["a"].target.values()
    assert type(numbers) is frozenset and numbers == frozenset(range(10))


def test_it_is_not_asked_where_nothing_changed() -> None:
    own = ToTheFirst()
    group = group_of(own)
    group.update()
    own.seen = {}
    assert group.update() == {}
    assert own.seen == {}


Spoil = Callable[[dict[str, dict[UUID, Collection[int]]]], Given]

NONSENSE: dict[str, tuple[Spoil, str]] = {
    "a member that is gone": (lambda g: {**g, "z": {}}, "it names 'z', which is not a member"),
    "a topic that is unknown": (lambda g: {**g, "a": {topic(9): [0]}}, "a topic that does not exist"),
    "a topic that is not subscribed": (
        lambda g: {**g, "a": {topic(1): [0]}},
        f"it assigns {topic(1)} to 'a', but that member does not subscribe to it",
    ),
    "a partition twice": (lambda g: {**g, "b": {topic(0): [1], topic(1): [0, 1]}}, "-1 to both 'a' and 'b'"),
    "a partition too high": (lambda g: {**g, "a": {topic(0): [0, 1, 2]}}, "-2 to 'a', but it does not exist"),
    "what is no number": (lambda g: {**g, "a": {topic(0): ["0"]}}, "-0 to 'a', but it does not exist"),  # type: ignore[list-item]
    "a partition to nobody": (lambda g: {**g, "a": {topic(0): [1]}}, "-0 to no member"),
    "a topic to nobody": (lambda g: {"a": g["a"]}, "-0 and 1 more to no member"),
    "nothing at all": (lambda g: None, "failed with AttributeError"),  # type: ignore[dict-item,return-value]
}


@pytest.mark.parametrize("what", NONSENSE)
def test_nonsense_is_refused_with_its_reason_and_the_last_targets_stay(what: str) -> None:
    own = ToTheFirst()
    group = group_of(own)
    group.update()
    last = dict(group.targets)
    spoil, said = NONSENSE[what]
    own.result = lambda given: spoil({member_id: dict(share) for member_id, share in given.items()})
    group.set_topic(1, 2)
    with pytest.raises(AssignorError, match="'to-the-first'") as refused:
        group.plan.update()
    assert said in str(refused.value)
    # It is asked again, and what it gives then is compared with what counts.
    own.result = lambda given: given
    assert group.update() == {}
    assert group.targets == last


def test_the_partition_reported_as_unassigned_does_not_depend_on_set_order() -> None:
    # These ids have one hash, so a set of them has the order in which it was made.
    ids = [topic(number) for number in (0, sys.hash_info.modulus)]
    shapes = dict.fromkeys(ids, TopicShape(1))
    said = set()
    for order in (ids, ids[::-1]):
        with pytest.raises(AssignorError) as raised:
            check_targets({}, {"m": MemberShape(frozenset(order))}, shapes)
        said.add(str(raised.value))
    assert said == {f"it assigns {ids[0]}-0 to no member"}
