"""Bugs of the gateway; see planting. Each is looked for in worlds whose members use gateways."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from pytest import MonkeyPatch

from kohort.gateway.groups import GroupMirror, Outcome
from kohort.gateway.groups.consumer_mirror import ConsumerMirror
from kohort.gateway.server import Gateway
from kohort.sim import Plan, draw
from kohort.sim.plans.gateway_drawing import put_gateways
from tests.sim.planting import plant


def _through_gateways(seed: int) -> Callable[[], Plan]:
    """Return a function that returns a seed's world with a gateway in front of brokers that hold no heartbeats."""

    def plan() -> Plan:
        drawn = draw(seed, 60.0)
        drawn.settings |= {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}
        put_gateways(drawn, 1, Random(seed))
        return drawn

    return plan


@plant("L8", plan=_through_gateways(2))
def a_gateway_forgets_when_its_holds_end(patch: MonkeyPatch) -> None:
    patch.setattr(GroupMirror, "fire", lambda self, timer, now: Outcome())


@plant("S15", plan=_through_gateways(2))
def a_gateway_keeps_the_connections_of_clients_that_are_gone(patch: MonkeyPatch) -> None:
    patch.setattr(Gateway, "closed", lambda self, link: None)


@plant("S1", plan=_through_gateways(3))
def news_of_a_probe_go_to_another_member(patch: MonkeyPatch) -> None:
    real = ConsumerMirror._deliver

    def confused(self: ConsumerMirror, group: Any, member: Any, response: Any, now: int, out: Any) -> None:
        others = [one for one in group.members.values() if self.prompt.is_held(group.group_id, one.member_id)]
        real(self, group, (others or [member])[0], response, now, out)

    patch.setattr(ConsumerMirror, "_deliver", confused)
