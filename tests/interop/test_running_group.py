"""A group while its members are there: what tools say of it, and what a newcomer takes from the others."""

from __future__ import annotations

import contextlib

import pytest

from tests.interop.broker import Broker
from tests.interop.clients import CLIENTS, Client, Confluent
from tests.interop.members import ConfluentMember, CooperativeMember
from tests.interop.process import until

pytestmark = pytest.mark.interop


def test_every_client_sees_a_running_group(any_broker: Broker, fresh: str, kafka_tools: None) -> None:
    Confluent().create_topic(any_broker.bootstrap, fresh, 2)
    with contextlib.ExitStack() as running:
        member = ConfluentMember(any_broker.bootstrap, fresh, fresh)
        running.callback(member.stop)
        until(20.0, "the member owns the topic", lambda: member.owned == {0, 1})
        views = {client.name: client.describe(any_broker.bootstrap, fresh, fresh) for client in CLIENTS}
    assert {name: (view.state, view.members) for name, view in views.items()} == {
        client.name: ("Stable", 1) for client in CLIENTS
    }


def test_a_cooperative_member_gives_up_only_what_the_newcomer_gets(any_broker: Broker, fresh: str) -> None:
    Confluent().create_topic(any_broker.bootstrap, fresh, 6)
    with contextlib.ExitStack() as running:
        first = CooperativeMember(any_broker.bootstrap, fresh, fresh)
        running.callback(first.stop)
        until(20.0, "one member owns all", lambda: len(first.owned) == 6)
        second = CooperativeMember(any_broker.bootstrap, fresh, fresh)
        running.callback(second.stop)
        until(30.0, "two members own three each", lambda: (len(first.owned), len(second.owned)) == (3, 3))
        assert first.owned | second.owned == frozenset(range(6))
        assert set(first.given_up) == second.owned
        assert len(first.given_up) == 3
        assert second.given_up == []


@pytest.mark.parametrize("client", [c for c in CLIENTS if c.name != "java"], ids=lambda client: client.name)
def test_a_topic_is_made_when_a_producer_names_it(client: Client, any_broker: Broker, fresh: str) -> None:
    client.produce(any_broker.bootstrap, fresh, ["first"], "none")
    assert client.consume(any_broker.bootstrap, f"{fresh}-group", fresh, 1) == ["first"]
