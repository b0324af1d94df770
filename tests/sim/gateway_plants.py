"""Bugs of the gateway; see planting. Each is looked for in worlds whose members use gateways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from pytest import MonkeyPatch

from kohort.gateway.groups import GroupMirror, Outcome
from kohort.gateway.groups.classic_syncs import ClassicSyncs
from kohort.gateway.groups.consumer_mirror import ConsumerMirror
from kohort.gateway.lost_members import LostMembers
from kohort.gateway.member_requests import MemberRequests
from kohort.gateway.server import Gateway
from kohort.sim import Plan, Step, draw
from kohort.sim.plans import draw_small_transactions
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.plans.gateway_drawing import put_gateways
from kohort.sim.steps import MemberKill, MemberStart
from tests.sim.planting import plant

_LIKE_KAFKA = {"group.heartbeat.hold.ms": "0", "group.disconnect.grace.ms": "0"}


def _through_a_gateway(seed: int) -> Callable[[], Plan]:
    """Return a function that returns a seed's world with a gateway in front of brokers that hold no heartbeats."""

    def plan() -> Plan:
        drawn = draw(seed, 60.0)
        drawn.settings |= _LIKE_KAFKA
        put_gateways(drawn, 1, Random(seed))
        return drawn

    return plan


def _three_members(protocol: str) -> Callable[[], Plan]:
    """Return a function that returns a world whose members join one after another, and one of which is killed."""

    def plan() -> Plan:
        members = [
            ApplicationSettings("group-0", ("orders",), "cooperative-sticky", callback=500, protocol=protocol)
            for _ in range(3)
        ]
        steps: list[Step] = [MemberStart(0.5, 0), MemberStart(8.0, 1), MemberStart(20.0, 2), MemberKill(32.0, 0, 15.0)]
        settings = {"group.initial.rebalance.delay.ms": "0", **_LIKE_KAFKA}
        return Plan(
            1, 60.0, 1, settings, {"orders": 6}, members, [1.0] * 3, gateway_rates=[1.0], ways=[0] * 3, steps=steps
        )

    return plan


@plant("L8", plan=_through_a_gateway(2))
def a_gateway_forgets_when_its_holds_end(patch: MonkeyPatch) -> None:
    patch.setattr(GroupMirror, "fire", lambda self, timer, now: Outcome())


@plant("S15", plan=_through_a_gateway(2))
def a_gateway_keeps_the_connections_of_clients_that_are_gone(patch: MonkeyPatch) -> None:
    patch.setattr(Gateway, "closed", lambda self, link: None)


@plant("S6", plan=_through_a_gateway(3))
def news_of_a_probe_go_to_another_member(patch: MonkeyPatch) -> None:
    real = ConsumerMirror._deliver

    def confused(self: ConsumerMirror, group: Any, member: Any, response: Any, now: int, out: Any) -> None:
        others = [one for one in group.members.values() if self.prompt.is_held(group.group_id, one.member_id)]
        real(self, group, (others or [member])[0], response, now, out)

    patch.setattr(ConsumerMirror, "_deliver", confused)


@plant("S15", plan=_three_members("consumer"))
def a_gateway_keeps_the_connections_of_members_in_whose_place_it_left(patch: MonkeyPatch) -> None:
    patch.setattr(LostMembers, "done", lambda self, group_id, member_id: None)


@plant("L1", plan=_three_members("classic"))
def a_gateway_holds_responses_to_sync_group_for_ever(patch: MonkeyPatch) -> None:
    patch.setattr(ClassicSyncs, "release", lambda *arguments: None)
    patch.setattr(ClassicSyncs, "due", lambda *arguments: None)


@plant("S28", hint=7)
def a_response_overtakes_a_heartbeat_that_a_gateway_holds(patch: MonkeyPatch) -> None:
    patch.setattr(MemberRequests, "release", lambda self, behind: None)


@plant("L10", "L7", plan=partial(draw_small_transactions, 5077))
def clients_of_a_broker_that_is_back_stay_at_another_one(patch: MonkeyPatch) -> None:
    patch.setattr(Gateway, "_end_stand_ins", lambda self, address: None)
