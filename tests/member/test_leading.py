"""Log messages of the leader of a classic group about an assignment that only it checks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kohort.assignor import RebalanceProtocol
from kohort.member.classic.leading import Lead
from kohort.model import TopicPartition
from kohort.wire.messages.consumer_protocol import Assignment, Subscription
from tests.client.own_assignor import FirstTakesAll
from tests.member.world import World

Given = dict[str, list[int]]


class Eager(FirstTakesAll):
    """The same, where everybody gives up everything first."""

    protocol = RebalanceProtocol.EAGER


def fault(assignor: FirstTakesAll, given: Given, owned: Given | None = None) -> str | None:
    """Return the log of an assignment of t, with three partitions, and u, which does not exist; a and b want both."""
    subscriptions = {
        name: Subscription(["t", "u"], owned_partitions=[TopicPartition("t", n) for n in (owned or {}).get(name, [])])
        for name in ("a", "b")
    }
    lead = Lead(assignor, subscriptions, {}, skip_assignment=False)
    shares = {name: Assignment([TopicPartition("t", n) for n in numbers]) for name, numbers in given.items()}
    return lead.fault({"t": 3, "u": None}, shares)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"a": [0, 2], "b": [1]}, None),
        ({"a": [0, 1, 2]}, None),
        ({"a": [0], "b": [1]}, "it assigns t-2 to no member, so no member reads it"),
        ({}, "it assigns t-0 and 2 more to no member, so no member reads it"),
        ({"stranger": [0, 1, 2]}, "it assigns t-0 and 2 more to no member, so no member reads it"),
    ],
)
def test_partitions_without_an_owner(given: Given, expected: str | None) -> None:
    assert fault(FirstTakesAll(), given) == expected


def test_a_partition_that_is_given_twice() -> None:
    said = fault(FirstTakesAll(), {"a": [0, 1], "b": [1, 2]})
    assert said is not None and said.startswith("it assigns t-1 to both ") and said.endswith(", so both read it")


def test_a_cooperative_assignor_leaves_out_what_changes_hands() -> None:
    owned = {"a": [0, 1, 2]}
    assert fault(FirstTakesAll(), {"a": [0, 1], "b": []}, owned) is None
    said = fault(Eager(), {"a": [0, 1], "b": []}, owned)
    assert said is not None and said.startswith("it assigns t-2 to no member")


class GivesNothing(FirstTakesAll):
    """Has another bug."""

    name = "gives-nothing"

    def assign(
        self,
        partitions: Mapping[str, int],
        members: Mapping[str, Subscription],
        instance_ids: Mapping[str, str | None] | None = None,
    ) -> Mapping[str, Assignment]:
        """Assign nothing to any member."""
        return {}


def test_the_leader_warns_and_the_group_follows_the_assignment_as_in_kafka() -> None:
    world = World({"t": 2})
    one = world.host("one", "t", assignors=[GivesNothing()])
    world.run(10_000)
    assert one.is_settled and not world.owners()
    assert one.warnings == [
        "the assignor 'gives-nothing' is wrong: it assigns t-0 and 1 more to no member, so no member reads it"
    ]
