"""Members that compute their group's target (decision 005), against the coordinator itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from kohort.assignor.range import RangeAssignor
from kohort.coordinator import Weights
from kohort.coordinator.consumer.states import ConsumerGroupState
from kohort.group_events import Refused, TargetRefused
from kohort.member import Weigh
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, OfferedAssignor
from kohort.wire.messages.consumer_protocol import Assignment, Subscription
from tests.client.own_assignor import FirstTakesAll
from tests.member.world import Host, World, tps

Shares = Callable[[list[str]], Mapping[str, list[TopicPartition]]]


class Scripted(RangeAssignor):
    """Gives what the test says, by the sorted member ids, and counts how often it was asked."""

    name = "scripted"

    def __init__(self, shares: Shares) -> None:
        self.asked = 0
        self.shares = shares

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        self.asked += 1
        return {name: Assignment(share) for name, share in self.shares(sorted(members)).items()}


def owned(*hosts: Host) -> list[set[int]]:
    return [{partition.partition for partition in host.processing} for host in hosts]


def test_an_assignor_of_the_members_is_used_if_all_offer_it() -> None:
    world = World({"t": 4})
    one = world.consumer("one", "t", assignors=[FirstTakesAll()])
    world.run(10_000)
    assert one.processing == tps("t", 0, 1, 2, 3)
    early = world.consumer("early", "t", assignors=[FirstTakesAll()])
    world.run(20_000)
    assert owned(one, early) == [set(), {0, 1, 2, 3}]  # the first by the alphabet
    world.add_partitions("t", 6)
    world.run(20_000)
    assert owned(one, early) == [set(), {0, 1, 2, 3, 4, 5}]
    early.leave()
    world.run(20_000)
    assert owned(one) == [{0, 1, 2, 3, 4, 5}]


def test_partitions_withheld_by_a_cooperative_assignor_move_in_the_first_rebalance() -> None:
    world = World({"t": 4})
    one = world.consumer("one", "t", assignors=["cooperative-sticky"])
    world.run(10_000)
    assert one.processing == tps("t", 0, 1, 2, 3)
    two = world.consumer("two", "t", assignors=["cooperative-sticky"])
    world.run(20_000)
    assert [len(some) for some in owned(one, two)] == [2, 2]
    assert one.processing | two.processing == tps("t", 0, 1, 2, 3)


def test_it_is_computed_without_waiting_for_a_heartbeat_interval_when_a_member_joins() -> None:
    world = World({"t": 2})
    one = world.consumer("one", "t", assignors=["range"])
    world.run(100)
    assert one.processing == tps("t", 0, 1)


def test_one_member_that_does_not_offer_it_leaves_it_to_the_server() -> None:
    world = World({"t": 4})
    first = world.consumer("a", "t", assignors=[FirstTakesAll()])
    world.run(10_000)
    plain = world.consumer("b", "t")
    world.run(20_000)
    assert owned(first, plain) == [{0, 1}, {2, 3}]
    plain.leave()
    world.consumer("c", "t", assignors=[FirstTakesAll()])
    world.run(20_000)
    assert owned(first) == [{0, 1, 2, 3}]


NONSENSE: dict[str, tuple[Shares, str]] = {
    "a partition twice": (
        lambda ids: {member_id: [TopicPartition("t", 0)] for member_id in ids},
        "it assigns t-0 to both",
    ),
    "what is not subscribed": (lambda ids: {ids[0]: [TopicPartition("u", 0)]}, "that member does not subscribe to it"),
    "a member that is not there": (lambda ids: {"nobody": [TopicPartition("t", 0)]}, "names 'nobody', which is not a"),
    "a partition that is not there": (lambda ids: {ids[0]: [TopicPartition("t", 9)]}, "but it does not exist"),
    "a partition left out": (lambda ids: {ids[0]: [TopicPartition("t", 1)]}, "it assigns t-0 to no member"),
    "everything left out": (lambda ids: {}, "it assigns t-0 and 1 more to no member"),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense_is_refused_with_the_reason_and_the_last_good_target_stays(kind: str) -> None:
    shares, reason = NONSENSE[kind]
    world = World({"t": 2, "u": 1})
    fine = Scripted(lambda ids: {ids[0]: [TopicPartition("t", 0), TopicPartition("t", 1)]})
    one = world.consumer("one", "t", assignors=[fine], max_poll_interval_ms=60_000)
    world.run(10_000)
    fine.shares = shares
    two = world.consumer("two", "t", "u", assignors=[Scripted(shares)], max_poll_interval_ms=60_000)
    world.run(50_000)
    assert any(reason in warning for host in (one, two) for warning in host.warnings)
    assert world.consumer_group.state is ConsumerGroupState.ASSIGNING
    assert reason in (world.consumer_group.why("one") or "")
    assert (owned(one), two.told) == ([{0, 1}], ["assigned -"])
    # No member waits forever: after the rebalance timeout the server's assignor computes.
    world.run(30_000)
    assert two.processing
    assert not any(
        "the last target stays in force" in (world.consumer_group.why(name) or "") for name in ("one", "two")
    )


def test_an_accepted_target_clears_the_last_error() -> None:
    world = World({"t": 2})
    assignor = Scripted(lambda ids: {})
    one = world.consumer("one", "t", assignors=[assignor])
    world.run(10_000)
    assert "to no member" in (world.consumer_group.why("one") or "")
    assignor.shares = lambda ids: {ids[0]: [TopicPartition("t", 0), TopicPartition("t", 1)]}
    world.consumer("two", "t", assignors=[assignor])
    world.run(10_000)
    assert len(one.processing) == 2
    assert world.consumer_group.why("one") == "a member computed it, by scripted"


def test_a_member_that_dies_while_it_computes_is_replaced_by_another() -> None:
    world = World({"t": 2})
    one = world.consumer("one", "t", assignors=["range"])
    world.run(10_000)
    two = world.consumer("two", "t", assignors=["range"])
    world.run_until(lambda: len(two.heartbeats) == 2)  # its answer asks it to compute
    two.crash()
    world.run(100_000)
    assert one.processing == tps("t", 0, 1)
    assert list(world.consumer_group.members) == ["one"]


def test_a_failing_assignor_leaves_it_to_the_server_at_once() -> None:
    def fails(_: list[str]) -> Mapping[str, list[TopicPartition]]:
        raise ZeroDivisionError("division by zero")

    world = World({"t": 2})
    one = world.consumer("one", "t", assignors=[Scripted(fails)])
    world.run(10_000)
    assert one.processing == tps("t", 0, 1)
    sentence = "the assignor 'scripted' failed: ZeroDivisionError: division by zero"
    assert one.warnings == [sentence]
    told = [event for event in world.events if isinstance(event, TargetRefused)]
    assert [event.refused for event in told] == [Refused("scripted", "one", sentence)]


def test_after_a_failover_members_offer_again() -> None:
    world = World({"t": 4})
    one = world.consumer("b", "t", assignors=[FirstTakesAll()])
    world.run(10_000)
    world.fail_over()
    world.run(10_000)
    first = world.consumer("a", "t", assignors=[FirstTakesAll()])
    world.run(30_000)
    assert owned(first, one) == [{0, 1, 2, 3}, set()]


def test_a_target_for_an_older_group_epoch_is_rejected_and_computed_again() -> None:
    world = World({"t": 2})
    met: list[list[str]] = []

    def shares(ids: list[str]) -> Mapping[str, list[TopicPartition]]:
        met.append(ids)
        if len(met) == 1:
            # Before what is computed now gets to the coordinator, another member does.
            world.shell.handle(late, -1, 1, "late")
        return {ids[0]: [TopicPartition("t", 0), TopicPartition("t", 1)]}

    late = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="late",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
        offered_assignors=[OfferedAssignor(name="scripted")],
    )
    one = world.consumer("one", "t", assignors=[Scripted(shares)])
    world.run(10_000)
    assert met == [["one"], ["late", "one"]]  # refused, and asked again in the same answer
    assert one.warnings == []
    assert {name: len(target) for name, target in world.consumer_group.targets.items() if target} == {"late": 2}


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky", FirstTakesAll()])
def test_a_drained_member_stays_and_gets_nothing_where_a_member_computes(assignor: str | FirstTakesAll) -> None:
    world = World({"t": 4})
    one, two = world.consumer("one", "t", assignors=[assignor]), world.consumer("two", "t", assignors=[assignor])
    world.run(30_000)
    everything = one.processing | two.processing
    assert len(everything) == 4
    one.handle(Weigh(0.0))
    world.run(30_000)
    assert owned(one, two) == [set(), {0, 1, 2, 3}] and len(world.consumer_group.members) == 2
    assert world.consumer_group.computing.made_by is not None
    one.handle(Weigh(1.0))
    world.run(30_000)
    assert one.processing and one.processing | two.processing == everything


def test_an_operator_drains_a_member_where_a_member_computes() -> None:
    world = World({"t": 4})
    one, two = world.consumer("one", "t", assignors=["range"]), world.consumer("two", "t", assignors=["range"])
    world.run(30_000)
    assert owned(one, two) == [{0, 1}, {2, 3}]
    world.set_weights(Weights((("one", 0.0),)))
    world.run(30_000)
    assert owned(one, two) == [set(), {0, 1, 2, 3}]
    world.set_weights(Weights())
    world.run(30_000)
    assert owned(one, two) == [{0, 1}, {2, 3}]


def test_if_all_members_are_drained_nothing_is_computed_or_assigned() -> None:
    world = World({"t": 2})
    asked = Scripted(lambda ids: {ids[0]: [TopicPartition("t", 0), TopicPartition("t", 1)]})
    one = world.consumer("one", "t", assignors=[asked], weight=0)
    world.run(30_000)
    assert (asked.asked, owned(one), one.warnings) == (0, [set()], [])
    assert world.consumer_group.state is ConsumerGroupState.STABLE
    one.handle(Weigh(1.0))
    world.run(30_000)
    assert (asked.asked, owned(one)) == (1, [{0, 1}])


def test_assignments_to_drained_members_are_checked_too() -> None:
    world = World({"t": 2})
    stubborn = Scripted(lambda ids: {"one": [TopicPartition("t", 0), TopicPartition("t", 1)]})
    one = world.consumer("one", "t", assignors=[stubborn], max_poll_interval_ms=60_000)
    two = world.consumer("two", "t", assignors=[stubborn], max_poll_interval_ms=60_000)
    world.run(30_000)
    assert owned(one, two) == [{0, 1}, set()]
    one.handle(Weigh(0.0))
    world.run(30_000)
    assert any("that member is drained" in warning for host in (one, two) for warning in host.warnings)
    world.run(60_000)  # then the server's assignor computes
    assert owned(one, two) == [set(), {0, 1}]
