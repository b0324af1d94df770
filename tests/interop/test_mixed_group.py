"""Members of four libraries in one group: the protocol between them is the subscription's and assignment's bytes."""

from __future__ import annotations

import contextlib

import pytest

from kohort.blocking import Producer
from tests.interop.broker import Broker
from tests.interop.clients import Confluent
from tests.interop.members import MEMBERS, Member
from tests.interop.process import until

pytestmark = pytest.mark.interop

PARTITIONS = frozenset(range(12))


def owns_each_once(members: list[Member]) -> bool:
    owned = [partition for member in members for partition in member.owned]
    return len(owned) == len(PARTITIONS) and frozenset(owned) == PARTITIONS


def test_a_mixed_group_owns_every_partition_once(any_broker: Broker, fresh: str) -> None:
    client = Confluent()
    client.create_topic(any_broker.bootstrap, fresh, len(PARTITIONS))
    written = [f"value {number}" for number in range(600)]

    with contextlib.ExitStack() as running:
        members: list[Member] = []
        for kind in MEMBERS:
            member = kind(any_broker.bootstrap, f"{fresh}-group", fresh)
            running.callback(member.stop)
            members.append(member)
        until(30.0, "four members own 3 partitions each", lambda: [len(m.owned) for m in members] == [3] * 4)
        assert owns_each_once(members)

        # Into each partition: where records go without a key is the producer's choice, and a member may have none.
        with Producer(bootstrap_servers=any_broker.bootstrap) as producer:
            for number, value in enumerate(written):
                producer.send(fresh, value.encode(), partition=number % len(PARTITIONS))
        until(20.0, "every record is read", lambda: sum(len(m.values) for m in members) >= len(written))
        assert sorted(value for m in members for value in m.values) == sorted(written)
        assert all(m.values for m in members)

        leaver, *rest = members
        leaver.stop()
        until(30.0, "three members own 4 partitions each", lambda: [len(m.owned) for m in rest] == [4] * 3)
        assert owns_each_once(rest)

        # The leaving member has committed all that it read: nothing is read twice.
        client.produce(any_broker.bootstrap, fresh, ["last"] * 12, "none")
        until(20.0, "the new records are read", lambda: sum(m.values.count("last") for m in rest) >= 12)
        assert sorted(value for m in members for value in m.values) == sorted([*written, *["last"] * 12])

    view = client.describe(any_broker.bootstrap, f"{fresh}-group", fresh)
    assert (view.state, view.members, sum(view.committed.values())) == ("Empty", 0, 612)
