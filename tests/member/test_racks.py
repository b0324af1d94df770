"""Members that read from replicas near to them (KIP-881)."""

from __future__ import annotations

from kohort.model import TopicPartition
from tests.member.world import Host, World, tps

SWAPPED = {TopicPartition("t", n): frozenset("BA"[n // 2]) for n in range(4)}


def world_with(assignors: str, first: str | None = "A", second: str | None = "B") -> tuple[World, Host, Host]:
    world = World({"t": 4})
    one = world.host("one", "t", assignors=assignors, rack_id=first)
    two = world.host("two", "t", assignors=assignors, rack_id=second)
    world.settle()
    world.run(10_000)
    return world, one, two


def test_when_replicas_move_members_follow_them() -> None:
    world, one, two = world_with("range")
    for _ in range(2):
        near = {TopicPartition("t", n): frozenset("AB"[n % 2]) for n in range(4)}
        world.move_replicas(near)
        world.run(10_000)
        assert (one.member.owned, two.member.owned) == (tps("t", 0, 2), tps("t", 1, 3))
        world.move_replicas(SWAPPED)
        world.run(10_000)
        assert (one.member.owned, two.member.owned) == (tps("t", 2, 3), tps("t", 0, 1))


def test_news_that_change_nothing_start_no_rebalance() -> None:
    world, *_ = world_with("range")
    world.move_replicas(SWAPPED)
    world.run(10_000)
    generation = world.generation
    world.move_replicas(SWAPPED)
    world.run(10_000)
    assert world.generation == generation


def test_a_leader_without_a_rack_ignores_racks_of_replicas() -> None:
    world, *_ = world_with("range", None, None)
    generation = world.generation
    world.move_replicas(SWAPPED)
    world.run(10_000)
    assert world.generation == generation


def test_an_assignor_that_knows_no_racks_is_not_asked_to() -> None:
    world, one, two = world_with("roundrobin")
    generation = world.generation
    world.move_replicas(SWAPPED)
    world.run(10_000)
    assert world.generation == generation
    assert sorted(len(host.member.owned) for host in (one, two)) == [2, 2]
