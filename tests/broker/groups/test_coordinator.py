"""The shard of a group, and the shards that a broker leads."""

from __future__ import annotations

import pytest

from kohort.broker.groups.coordinator import group_partition, java_string_hash
from kohort.errors import ErrorCode
from tests.broker.groups.test_leading_again import Waiter, committing
from tests.broker.groups.test_shard import ask, code_of
from tests.broker.peer import Peer
from tests.broker.virtual import VirtualBroker, eventually, in_virtual_time


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("orders", -1_008_770_331),
        ("polygenelubricants", -(1 << 31)),
        ("\u00e9\U0001f600", 1_996_812),
    ],
)
def test_a_hash_is_that_of_javas_string(text: str, code: int) -> None:
    # The numbers are what Java computes.
    assert java_string_hash(text) == code


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [("hello", 22), ("orders", 31), ("polygenelubricants", 0)],
)
def test_the_partition_of_a_group_is_that_of_kafkas_clients(group_id: str, partition: int) -> None:
    # Kafka takes 0 for the hash whose absolute value is no 32-bit number.
    assert group_partition(group_id, 50) == partition


def test_a_group_has_the_same_shard_after_the_broker_has_seen_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kohort.broker.groups.coordinator._CACHED_GROUPS", 3)

    async def steps(world: VirtualBroker, peer: Peer) -> None:
        groups = world.broker.groups
        names = [f"g{number}" for number in range(10)]
        assert [groups.shard(name).partition for name in names] == [group_partition(name, 50) for name in names]
        assert groups.shard("g0") is groups.shard("g0")
        for name in names:
            groups.shard(name)
            assert len(groups._of_group) <= 3

    in_virtual_time(steps)


def test_a_broker_leads_the_partitions_that_it_gets_and_no_others() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        groups = world.broker.groups
        assert [shard.partition for shard in groups] == list(range(50))
        groups.give_up([3, 4, 5])
        assert [shard.partition for shard in groups] == [number for number in range(50) if number not in (3, 4, 5)]
        groups.lead([4])
        assert [shard.partition for shard in groups] == [number for number in range(50) if number not in (3, 5)]

    in_virtual_time(steps)


def test_a_broker_that_stops_resigns_from_all_shards() -> None:
    async def steps(world: VirtualBroker, peer: Peer) -> None:
        shard = world.broker.groups.shard("g")
        waiter: Waiter = ask(shard, committing(1), 5)
        await eventually(lambda: waiter.answer is not None)
        world.broker.groups.resign()
        assert code_of(ask(shard, committing(2), 5)) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert not any(group.ready for group in world.broker.groups)

    in_virtual_time(steps)
