"""Members with state against the coordinator itself: they copy first, say so, and then get their share."""

from __future__ import annotations

import pytest

from kohort.assignor import RebalanceProtocol
from kohort.assignor.copies import Copies
from kohort.assignor.warm import Plan, WarmAssignor
from kohort.member import Rejoin
from kohort.model import TopicPartition
from tests.member.world import Host, World, tps


class Stateful:
    """The application of one member: it does what the plan says when the test lets it."""

    def __init__(self, world: World, name: str, protocol: str, plans: list[Plan]) -> None:
        self.name = name
        self.plans = plans
        self.has: set[TopicPartition] = set()
        consumer = protocol == "consumer"
        assignor = WarmAssignor(
            lambda: Copies(name, dict.fromkeys(self.has | self.host.processing, 0)),
            plans.append,
            standbys=1,
            protocol=RebalanceProtocol.EAGER if consumer else RebalanceProtocol.COOPERATIVE,
        )
        self.host: Host = (
            world.consumer(name, "t", assignors=[assignor]) if consumer else world.host(name, "t", assignors=[assignor])
        )

    def copy(self, reason: str | None) -> None:
        """Copy what the newest plan says, and tell."""
        self.has = set(self.plans[-1].copies[self.name])
        self.host.handle(Rejoin(reason))


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_member_gets_its_share_when_it_reports_copies(protocol: str) -> None:
    world, plans = World({"t": 4}), list[Plan]()
    a = Stateful(world, "a", protocol, plans)
    world.run(10_000)
    b = Stateful(world, "b", protocol, plans)
    world.run(20_000)
    assert a.host.processing == tps("t", 0, 1, 2, 3) and not b.host.processing
    b.copy("copies are there")
    world.run(20_000)
    assert [a.host.processing, b.host.processing] == [tps("t", 0, 1), tps("t", 2, 3)]
    assert plans[-1].waiting == 0


@pytest.mark.parametrize("protocol", ["cooperative", "consumer"])
def test_a_standby_assigned_without_a_rebalance_takes_over_when_the_owner_leaves(protocol: str) -> None:
    world, plans = World({"t": 6}), list[Plan]()
    members = [Stateful(world, name, protocol, plans) for name in "abc"]
    for _ in range(3):
        world.run(20_000)
        for member in members:
            member.copy("copies are there")
    world.run(20_000)
    before, computed = {member.name: member.host.processing for member in members}, len(plans)
    for member in members:
        member.copy(None)
    world.run(20_000)
    assert len(plans) == computed
    assert sorted(map(len, before.values())) == [2, 2, 2]
    standby = {member.name: member.has for member in members}
    members[0].host.leave()
    world.run(20_000)
    for member in members[1:]:
        assert member.host.processing - before[member.name] <= standby[member.name]
        assert len(member.host.processing) == 3


def test_only_members_that_compute_can_ask_for_a_new_target() -> None:
    world = World({"t": 2})
    a = world.consumer("a", "t")
    world.run(10_000)
    epoch = world.consumer_group.epoch
    a.handle(Rejoin("no reason"))
    world.run(10_000)
    assert world.consumer_group.epoch == epoch
