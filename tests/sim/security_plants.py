"""Bugs of authentication and authorization, which only secured worlds can find; see planting."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from pytest import MonkeyPatch

from kohort.broker.access import AccessControl
from kohort.broker.access.guards import GUARDS
from kohort.broker.apis import fetch
from kohort.broker.security import Authentication, ScramCredentials
from kohort.client.consume.fetch_errors import FetchErrors
from kohort.client.net import authentication
from kohort.security import Acl
from kohort.sim import Plan, Step
from kohort.sim.plans import ApplicationSettings
from kohort.sim.steps import MemberLoseRight, MemberRejectPassword, MemberResetConnections, MemberStart, Produce, Right
from kohort.wire.messages.api_key import ApiKey
from tests.sim.planting import plant


def rights_that_come_and_go() -> Plan:
    """Three members read records; one loses the right to read the topic, one that to read the group, for 20 s."""
    members = [ApplicationSettings(group="g", topics=("orders",), protocol="consumer") for _ in range(3)]
    steps: list[Step] = [
        *(MemberStart(1.0 + number / 10, number) for number in range(3)),
        *(Produce(float(at), "orders", 1) for at in range(2, 60, 2)),
        MemberLoseRight(20.0, 0, Right.READ_TOPIC, "orders", 20.0),
        MemberLoseRight(21.0, 1, Right.READ_GROUP, "orders", 20.0),
    ]
    return _secured(members, sorted(steps, key=lambda step: step.at))


def commits_without_the_right() -> Plan:
    """As above, but records are numbers, which members process without fetching them."""
    return replace(rights_that_come_and_go(), records=False)


def a_password_that_is_changed() -> Plan:
    """A member connects again after the brokers have rejected its password for 20 s."""
    steps: list[Step] = [
        MemberStart(1.0, 0),
        MemberRejectPassword(10.0, 0, 40.0),
        MemberResetConnections(30.0, 0),
    ]
    return _secured([ApplicationSettings(group="g", topics=("orders",))], steps)


def a_quiet_group() -> Plan:
    """Two members whose sessions end after 5 s."""
    members = [ApplicationSettings(group="g", topics=("orders",)) for _ in range(2)]
    plan = _secured(members, [MemberStart(1.0, 0), MemberStart(2.0, 1), Produce(10.0, "orders", 5)])
    plan.settings["connections.max.reauth.ms"] = "5000"
    return plan


def _secured(members: list[ApplicationSettings], steps: list[Step]) -> Plan:
    settings = {"group.initial.rebalance.delay.ms": "0", "connections.max.reauth.ms": "0"}
    return Plan(
        seed=1,
        seconds=60.0,
        brokers=1,
        records=True,
        secured=True,
        settings=settings,
        topics={"orders": 6},
        members=members,
        rates=[1.0] * len(members),
        steps=steps,
    )


@plant("S20", plan=rights_that_come_and_go)
def a_deleted_acl_counts_until_the_broker_restarts(patch: MonkeyPatch) -> None:
    real = AccessControl.remove

    def unfollowed(self: Any, acls: Sequence[Acl]) -> None:
        before = self._authorizer
        real(self, acls)
        self._authorizer = before

    patch.setattr(AccessControl, "remove", unfollowed)


@plant("S20", plan=rights_that_come_and_go)
def a_fetch_session_keeps_its_topics_without_the_right_to_read_them(patch: MonkeyPatch) -> None:
    patch.setattr(fetch._Gathered, "_may_read", lambda self, name: True)


@plant("S20", plan=commits_without_the_right)
def anybody_may_commit(patch: MonkeyPatch) -> None:
    patch.setitem(GUARDS, ApiKey.OFFSET_COMMIT, lambda access, request: request)


@plant("S14", plan=rights_that_come_and_go)
def a_deleted_acl_takes_the_rights_of_all_principals(patch: MonkeyPatch) -> None:
    real = AccessControl.remove

    def all_of_its_pattern(self: Any, acls: Sequence[Acl]) -> None:
        patterns = {acl.pattern for acl in acls}
        real(self, [acl for acl in self.acls.all if acl.pattern in patterns])

    patch.setattr(AccessControl, "remove", all_of_its_pattern)


@plant("S14", plan=rights_that_come_and_go)
def a_right_that_is_given_back_is_refused_on(patch: MonkeyPatch) -> None:
    real, refused = AccessControl.may, set()

    def once_refused(self: Any, connection: Any, *what: Any) -> bool:
        if not real(self, connection, *what):
            refused.add((connection.principal, *what))
        return (connection.principal, *what) not in refused

    patch.setattr(AccessControl, "may", once_refused)


@plant("L5", "L7", plan=rights_that_come_and_go)
def a_partition_that_was_refused_is_never_fetched_again(patch: MonkeyPatch) -> None:
    def forever(self: Any, states: Collection[Any]) -> None:
        for state in states:
            state.retry_at = inf

    patch.setattr(FetchErrors, "_back_off", forever)


@plant("S20", plan=a_password_that_is_changed)
def a_changed_password_counts_until_the_broker_restarts(patch: MonkeyPatch) -> None:
    real = ScramCredentials.credential

    def first(self: Any, user: str, mechanism: Any) -> Any:
        known = self.__dict__.setdefault("known", {})
        return known.setdefault(user, real(self, user, mechanism))

    patch.setattr(ScramCredentials, "credential", first)


@plant("S21", plan=a_quiet_group)
def a_client_does_not_authenticate_again(patch: MonkeyPatch) -> None:
    patch.setattr(authentication.Authentication, "_start_again", lambda self: None)


@plant("S20", hint=13)
def a_session_does_not_end(patch: MonkeyPatch) -> None:
    real = Authentication.intercept

    def unending(self: Any, frame: bytes) -> bool:
        self._expires_at = None
        return real(self, frame)

    patch.setattr(Authentication, "intercept", unending)
