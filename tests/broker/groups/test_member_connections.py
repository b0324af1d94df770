"""Whose connections closed, and what follows from that, with a clock that tests move."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field

import pytest

from kohort.broker.groups import MemberConnections
from kohort.model import Millis
from tests.broker.groups.crash_scenes import STREAMS

FULL, SHORT = 5_500, 1_500
HERE, THERE = "/10.0.0.1", "/10.0.0.2"


@dataclass(eq=False)
class Link:
    """A connection, whose client waits for an answer unless the test says otherwise."""

    who: tuple[str, str]
    awaited_answer: bool = True
    members: dict[str, str] = field(default_factory=dict)
    check_members_at: int = 100

    def check_members_later(self) -> None: ...


class Parts:
    """What `MemberConnections` uses. All members are in the group `g`, and dynamic."""

    def __init__(self) -> None:
        self.at: Millis = 1_000_000
        self.refuses_clients = False
        self.removed: dict[str, Millis] = {}
        """Times of removals by member ID, counted from `begin`."""
        self.open: list[tuple[str, str]] = []
        self.begin = self.at
        self.presence = MemberConnections(self)
        self._due: dict[Hashable, tuple[Millis, Callable[[Millis], None]]] = {}

    @property
    def groups(self) -> Parts:
        return self

    @property
    def timers(self) -> Parts:
        return self

    @property
    def sockets(self) -> Parts:
        return self

    def now(self) -> Millis:
        return self.at

    def clients(self) -> Iterable[tuple[str, str]]:
        return self.open

    def shard(self, group_id: str) -> Parts:
        return self

    def has_member(self, group_id: str, member_id: str) -> bool:
        return member_id not in self.removed

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        return FULL

    def short_grace_ms(self, group_id: str, member_id: str, who: tuple[str, str]) -> Millis | None:
        return SHORT

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis) -> None:
        self.removed[member_id] = self.at - self.begin

    def set(self, key: Hashable, at: Millis | None, fire: Callable[[Millis], None]) -> None:
        self._due.pop(key, None)
        if at is not None:
            self._due[key] = at, fire

    # Steps of tests

    def lose(self, member_id: str, host: str = HERE, client_id: str = "app") -> None:
        """Let a member send a request on a connection, which closes."""
        link = Link((host, client_id))
        self.presence.heard(link, "g", member_id)
        self.presence.lost(link)

    def stand_still(self, milliseconds: Millis) -> None:
        """Let time pass in which no timer fires; then those fire that are due."""
        self.at += milliseconds
        while due := [(at, key) for key, (at, _) in self._due.items() if at <= self.at]:
            _, fire = self._due.pop(min(due, key=lambda each: each[0])[1])
            fire(self.at)

    def wait(self, milliseconds: Millis) -> None:
        end = self.at + milliseconds
        while next_ones := [at for at, _ in self._due.values() if at <= end]:
            self.stand_still(min(next_ones) - self.at)
        self.at = end


@pytest.fixture
def parts() -> Parts:
    return Parts()


@pytest.mark.parametrize(("between", "removed"), [(1_000, [5_500, 6_500]), (1_001, [1_500, 2_501])])
def test_members_of_a_host_that_are_lost_within_a_second_may_be_behind_a_proxy(
    parts: Parts, between: int, removed: list[int]
) -> None:
    parts.lose("a", client_id="one")
    parts.wait(between)
    parts.lose("b", client_id="two")
    parts.wait(10_000)
    assert list(parts.removed.values()) == removed


def test_members_of_different_hosts_have_nothing_in_common(parts: Parts) -> None:
    parts.lose("a", HERE)
    parts.lose("b", THERE)
    parts.wait(10_000)
    assert parts.removed == {"a": SHORT, "b": SHORT}


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(("between", "removed"), [(1_000, FULL), (1_001, SHORT)])
def test_a_client_without_a_group_here_that_waited_shows_that_a_proxy_failed(
    parts: Parts, between: int, removed: int, *, first: bool
) -> None:
    other = Link((HERE, "other"))
    if first:
        parts.presence.lost(other)
        parts.presence.lost(Link((HERE, "app")))  # the fetch of the member itself
        parts.wait(between)
        parts.begin = parts.at
        parts.lose("a")
    else:
        parts.lose("a")
        parts.wait(between)
        parts.presence.lost(other)
    parts.wait(10_000)
    assert parts.removed == {"a": removed}


@pytest.mark.parametrize(("host", "waited"), [(HERE, False), (THERE, True)])
def test_a_client_that_waited_for_nothing_or_is_elsewhere_shows_nothing(
    parts: Parts, host: str, *, waited: bool
) -> None:
    parts.lose("a")
    parts.presence.lost(Link((host, "other"), awaited_answer=waited))
    parts.wait(10_000)
    assert parts.removed == {"a": SHORT}


def test_the_log_says_why_a_member_has_the_full_time(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    parts.open.append((THERE, ""))
    with caplog.at_level(logging.INFO, "kohort.broker"):
        parts.lose("a")
        parts.presence.lost(Link((HERE, "other")))
        parts.presence.heard(idle := Link(("/10.0.0.3", "idle"), awaited_answer=False), "g", "b")
        parts.presence.lost(idle)
        parts.lose("c", THERE)
        parts.presence.lost(Link(("/10.0.0.4", "kohort-gateway"), awaited_answer=False))
        parts.lose("d", "/10.0.0.4")
        parts.wait(10_000)
    assert caplog.messages == [
        f"group=g member={member_id} has 5500 ms to connect again, because {why}"
        for member_id, why in {
            "a": "other clients of its host lost connections at the same time",
            "b": "it waited for no answer when its connection closed",
            "c": "another connection has its host, and its client ID or none yet",
            "d": "a gateway has connected from its host",
        }.items()
    ]


def test_a_process_has_several_connections(parts: Parts) -> None:
    own = Link((HERE, "app")), Link((HERE, "app"))
    parts.presence.lost(own[0])
    parts.lose("a")
    parts.presence.lost(own[1])
    parts.wait(10_000)
    assert parts.removed == {"a": SHORT}


def test_nothing_is_remembered_of_hosts_that_are_quiet_for_ten_seconds(parts: Parts) -> None:
    for host, later in ((HERE, 1_000), ("/10.0.0.3", 1_000), (HERE, 4_000), (THERE, 6_000), ("/10.0.0.4", 0)):
        parts.presence.lost(Link((host, "app")))
        parts.wait(later)
    assert list(parts.presence._waited_at) == [HERE, THERE, "/10.0.0.4"]


def test_connections_that_close_later_do_not_make_what_a_client_waited_for_forgotten(parts: Parts) -> None:
    parts.lose("a")
    parts.wait(1_400)
    parts.presence.lost(Link((THERE, "other")))
    parts.wait(10_000)
    assert parts.removed == {"a": SHORT}


def test_what_clients_waited_for_is_forgotten_after_ten_seconds_whoever_closes_connections_again(parts: Parts) -> None:
    for client_id, later in (("one", 1_000), ("two", 9_500), ("one", 1_000), ("three", 0)):
        parts.presence.lost(Link((HERE, client_id)))
        parts.wait(later)
    assert list(parts.presence._awaited) == [(HERE, "one"), (HERE, "three")]


@pytest.mark.parametrize(("host", "removed"), [(HERE, FULL), (THERE, SHORT)])
def test_a_connection_with_the_same_client_id_counts_if_it_is_from_the_same_host(
    parts: Parts, host: str, removed: int
) -> None:
    parts.open.append((host, "app"))
    parts.lose("a")
    parts.wait(10_000)
    assert parts.removed == {"a": removed}


@pytest.mark.parametrize(
    "name", ["StreamThread-2-producer", "StateUpdater-1-restore-consumer", "global-consumer", "admin"]
)
def test_any_connection_of_a_process_of_kafka_streams_shows_that_it_lives(parts: Parts, name: str) -> None:
    parts.open.append((HERE, f"{STREAMS}-{name}"))
    parts.lose("a", client_id=f"{STREAMS}-StreamThread-1-consumer")
    parts.wait(10_000)
    assert parts.removed == {"a": FULL}


@pytest.mark.parametrize(("minutes", "removed"), [(1, FULL), (3, SHORT)])
def test_a_host_is_known_as_that_of_a_gateway_for_two_minutes(parts: Parts, minutes: int, removed: int) -> None:
    parts.presence.lost(Link((HERE, "kohort-gateway")))
    parts.wait(60_000 * minutes)
    parts.begin = parts.at
    parts.lose("a")
    parts.wait(10_000)
    assert parts.removed == {"a": removed}


@pytest.mark.parametrize(("late", "removed"), [(499, 1_999), (500, 2_500)])
def test_a_broker_that_stood_still_reads_what_has_arrived_before_it_removes_a_member(
    parts: Parts, late: int, removed: int
) -> None:
    parts.lose("a")
    parts.stand_still(SHORT + late)
    parts.wait(10_000)
    assert parts.removed == {"a": removed}


def test_a_client_that_connected_while_the_broker_stood_still_has_the_full_time(parts: Parts) -> None:
    parts.lose("a")
    parts.stand_still(SHORT + 1_000)
    parts.open.append((HERE, "app"))  # accepted as soon as the broker goes on
    parts.wait(10_000)
    assert parts.removed == {"a": FULL}


def test_a_member_that_the_broker_refused_and_that_does_not_come_back_is_removed(parts: Parts) -> None:
    parts.lose("a")
    parts.refuses_clients = True
    parts.wait(5_000)
    assert parts.removed == {}
    parts.refuses_clients = False
    parts.wait(20_000)
    assert parts.removed == {"a": 5_500 + FULL}, "it looks every half second"
