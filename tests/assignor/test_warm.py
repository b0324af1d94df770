"""Partitions with state move only to members whose copies are close behind, and all are shared evenly in the end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from kohort.assignor import RebalanceProtocol
from kohort.assignor.copies import Copies, decode_copies, encode_copies
from kohort.assignor.warm import MAX_WARMUPS, Plan, WarmAssignor
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Subscription
from tests.assignor.groups import parts, steady

COLD = 1_000


@dataclass
class WarmGroup:
    """Members that copy what the plan says between two rebalances, and do what their protocol asks of them."""

    count: int
    members: list[str]
    standbys: int = 0
    protocol: RebalanceProtocol = RebalanceProtocol.COOPERATIVE
    owned: dict[str, list[TopicPartition]] = field(default_factory=dict)
    lags: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    plan: Plan = field(default_factory=lambda: Plan({}, {}))
    generation: int = 0
    restored: set[tuple[str, TopicPartition]] = field(default_factory=set)
    """What was given to a member that had to restore it, though another could have gone on."""

    def rebalance(self) -> None:
        """One generation."""
        planned: list[Plan] = []
        assignor = WarmAssignor(
            lambda: Copies(), planned.append, acceptable_lag=10, standbys=self.standbys, protocol=self.protocol
        )
        told = {name: self._subscription(name) for name in self.members}
        made = assignor.assign({"t": self.count}, told)
        [self.plan] = planned
        self.generation += 1
        for name, assignment in made.items():
            for partition in set(assignment.partitions) - set(self.owned.get(name, ())):
                if self._lag(name, partition) > 10 and any(self._lag(other, partition) <= 10 for other in self.members):
                    self.restored.add((name, partition))
                self.lags.setdefault(name, {})[partition] = 0
        if self.protocol is RebalanceProtocol.COOPERATIVE:
            before = {partition: name for name, share in self.owned.items() for partition in share}
            for name, assignment in made.items():
                assert all(before.get(partition, name) == name for partition in assignment.partitions), (
                    "its owner still has it"
                )
        self.owned = {name: list(assignment.partitions) for name, assignment in made.items()}
        counts = Counter(partition for share in self.owned.values() for partition in share)
        assert not counts or max(counts.values()) == 1

    def copy(self, *names: str) -> None:
        """These have done what the plan says; no names: all have."""
        for name in names or self.members:
            planned = set(self.plan.copies.get(name, ()))
            self.lags[name] = dict.fromkeys(planned | set(self.owned.get(name, ())), 0)

    def settle(self) -> int:
        """Copy and rebalance until the plan has nothing more to move; how many rebalances that took."""
        for count in range(1, 20):
            self.rebalance()
            self.copy()
            if not self.plan.waiting and sum(map(len, self.owned.values())) == self.count:
                return count
        raise AssertionError("what is wanted is never reached")

    def loads(self) -> list[int]:
        return sorted(len(self.owned[name]) for name in self.members)

    def leave(self, name: str) -> None:
        self.members.remove(name)
        del self.owned[name]
        self.lags.pop(name, None)

    def _subscription(self, name: str) -> Subscription:
        lags = {**self.lags.get(name, {}), **dict.fromkeys(self.owned.get(name, ()), 0)}
        return Subscription(["t"], encode_copies(Copies(name, lags)), self.owned.get(name, []), self.generation)

    def _lag(self, name: str, partition: TopicPartition) -> int:
        return self.lags.get(name, {}).get(partition, COLD)


def test_a_member_that_joins_first_gets_copies_and_then_its_share() -> None:
    group = WarmGroup(4, ["a"])
    group.settle()
    group.members.append("b")
    group.rebalance()
    assert group.owned == {"a": parts("t-0 t-1 t-2 t-3"), "b": []}
    assert (group.plan.copies, group.plan.waiting) == ({"a": [], "b": parts("t-2 t-3")}, 2)
    group.rebalance()  # no member has copies: nothing moves
    assert group.owned["b"] == []
    group.copy()
    group.rebalance()  # a moving partition has no owner until its owner has joined without it
    group.rebalance()
    assert group.owned == {"a": parts("t-0 t-1"), "b": parts("t-2 t-3")}
    assert group.plan.waiting == 0


def test_copied_partitions_move_although_others_are_not_copied() -> None:
    group = WarmGroup(4, ["a"])
    group.settle()
    group.members.append("b")
    group.rebalance()
    group.lags["b"] = dict(zip(parts("t-2 t-3"), (10, 11), strict=True))
    group.rebalance()
    group.rebalance()
    assert group.owned == {"a": parts("t-0 t-1 t-3"), "b": parts("t-2")}
    assert group.plan.copies["b"] == parts("t-2 t-3")  # it keeps the copy until it learns that it owns t-2


def test_a_lag_above_what_is_acceptable_moves_nothing() -> None:
    group = WarmGroup(2, ["a"])
    group.settle()
    group.members.append("b")
    group.lags["b"] = dict.fromkeys(parts("t-0 t-1"), 11)
    group.rebalance()
    assert group.owned == {"a": parts("t-0 t-1"), "b": []}


def test_the_number_of_copies_at_a_time_is_limited_and_all_partitions_move_in_the_end() -> None:
    group = WarmGroup(12, ["a"])
    group.settle()
    group.members.append("b")
    group.rebalance()
    assert group.plan.copies["b"] == group.plan.moving["b"] and group.plan.waiting == MAX_WARMUPS == 2
    group.copy()
    group.rebalance()  # they are on their way, the next two are copied
    assert set(group.plan.moving["b"]).isdisjoint(group.plan.copies["a"]) and group.plan.waiting == 2
    group.settle()
    assert group.loads() == [6, 6]


def test_standbys_go_on_when_a_member_leaves_and_each_has_one_more() -> None:
    group = WarmGroup(20, list("abcde"), standbys=1)
    group.settle()
    group.leave("c")
    group.rebalance()
    assert (group.loads(), group.restored) == ([5, 5, 5, 5], set())


def test_without_a_copy_anywhere_everything_is_given_at_once() -> None:
    group = WarmGroup(4, ["a", "b"])
    group.rebalance()
    assert group.loads() == [2, 2]


def test_a_partition_without_a_warm_copy_goes_to_the_least_lagging_member() -> None:
    group = WarmGroup(1, ["a", "b", "c"])
    group.lags = {"b": {TopicPartition("t", 0): 50}, "c": {TopicPartition("t", 0): 40}}
    group.rebalance()
    assert group.owned["c"] == parts("t-0")


def test_a_standby_is_never_the_owner_and_each_partition_has_the_configured_number() -> None:
    group = WarmGroup(12, list("abcd"), standbys=2)
    group.settle()
    standbys = Counter(partition for some in group.plan.copies.values() for partition in some)
    assert set(standbys.values()) == {2} and len(standbys) == 12
    assert {len(some) for some in group.plan.copies.values()} == {6}
    assert not any(set(group.owned[name]) & set(group.plan.copies[name]) for name in group.members)


def test_in_a_consumer_group_a_move_takes_one_rebalance() -> None:
    group = WarmGroup(4, ["a"], protocol=RebalanceProtocol.EAGER)
    group.settle()
    group.members.append("b")
    group.rebalance()
    group.copy()
    group.rebalance()
    assert group.owned == {"a": parts("t-0 t-1"), "b": parts("t-2 t-3")}


@steady
@given(data=st.data())
def test_the_assignment_is_even_in_the_end_whichever_members_join_and_leave(data: st.DataObject) -> None:
    protocol = data.draw(st.sampled_from([RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER]))
    group = WarmGroup(data.draw(st.integers(1, 12)), ["m0", "m1"], data.draw(st.integers(0, 2)), protocol)
    group.settle()
    for number, step in enumerate(data.draw(st.lists(st.sampled_from(["join", "leave", "copy", "rebalance"])))):
        if step == "join":
            group.members.append(f"n{number}")
        elif step == "leave" and len(group.members) > 1:
            group.leave(
                data.draw(st.sampled_from([member for member in group.members if member in group.owned] or [""]))
            )
        elif step == "copy":
            group.copy(data.draw(st.sampled_from(group.members)))
        group.rebalance()
    group.settle()
    loads = group.loads()
    assert loads[-1] - loads[0] <= 1
    assert group.restored == set()


def test_copies_survive_their_bytes_and_other_bytes_are_none() -> None:
    copies = Copies("m1", {TopicPartition("b", 2): 7, TopicPartition("a", 0): 1 << 40})
    assert decode_copies(encode_copies(copies)) == copies
    for other in (None, b"", b"\0", b"\0\0\xff", encode_copies(copies)[:-1]):
        assert decode_copies(other) == Copies()
