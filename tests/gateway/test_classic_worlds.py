"""Random classic groups behind a gateway: nobody is fenced, every partition has one owner, and changes are prompt."""

from collections.abc import Sequence
from random import Random

import pytest

from kohort.coordinator import ClientKind
from tests.gateway.classic_assignment import PARTITIONS
from tests.gateway.classic_world import World

ASSIGNORS = ("range", "cooperative-sticky")
CLIENTS = (ClientKind.OTHER, ClientKind.JAVA, ClientKind.LIBRDKAFKA, ClientKind.KAFKA_PYTHON)


def live_through(
    seed: int, assignor: str, hold_ms: int = 15_000, ways: Sequence[int | None] = (0,), *, replaces: bool = False
) -> World:
    """Let members join, leave, restart and commit at random, and then let the group settle.

    `ways` are the gateways that members use, None for none. `replaces`: gateways are replaced at random.
    """
    world = World(seed, assignor, hold_ms, gateways=2)
    random, ways_and_faults = world.random, Random(seed)

    def join() -> None:
        world.join(client=random.choice(CLIENTS), through=ways_and_faults.choice(ways))

    for _ in range(random.randint(1, 4)):
        join()
    world.run(10_000)
    for _ in range(25):
        stable = [member for member in world.live if member.member_id]
        match random.choice(("join", "leave", "commit", "commit", "wait", "restart")):
            case "join" if len(world.live) < 6:
                join()
            case "leave" if len(stable) > 1:
                random.choice(stable).leave()
            case "restart" if stable:
                random.choice(stable).leave()
                world.run(random.choice((1, 100, 800)))
                join()
            case "commit":
                for member in stable:
                    member.link.commit()
        world.run(random.choice((0, 1, 5, 20, 100, 400, 3_000, 12_000)))
        if replaces and world.gateways and ways_and_faults.random() < 0.2:
            world.replace_gateway(ways_and_faults.randrange(len(world.gateways)))
    world.run(30_000)
    return world


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("seed", range(40))
def test_a_random_group_settles_and_nobody_is_fenced(seed: int, assignor: str) -> None:
    world = live_through(seed, assignor)
    assert not world.fenced
    assert sorted(number for member in world.live for number in member.owned) == list(range(PARTITIONS))
    assert len({member.generation for member in world.live}) == 1


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_partitions_have_an_owner_for_more_of_the_time_than_without_a_gateway(assignor: str) -> None:
    through = sum(live_through(seed, assignor).dark_ms for seed in range(8))
    direct = sum(live_through(seed, assignor, hold_ms=0).dark_ms for seed in range(8))
    assert through < direct


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("ways", [(0, None), (0, 1)], ids=["beside", "two-gateways"])
@pytest.mark.parametrize("seed", range(25))
def test_a_group_of_members_that_do_not_all_use_one_gateway_settles_and_nobody_is_fenced(
    seed: int, ways: Sequence[int | None], assignor: str
) -> None:
    world = live_through(seed, assignor, ways=ways)
    assert not world.fenced
    assert sorted(number for member in world.live for number in member.owned) == list(range(PARTITIONS))


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("ways", [(0, None), (0, 1)], ids=["beside", "two-gateways"])
def test_members_that_do_not_all_use_one_gateway_wait_no_longer_than_without(
    ways: Sequence[int | None], assignor: str
) -> None:
    through = sum(live_through(seed, assignor, ways=ways).dark_ms for seed in range(16))
    direct = sum(live_through(seed, assignor, hold_ms=0).dark_ms for seed in range(16))
    assert through < direct


@pytest.mark.parametrize("assignor", ASSIGNORS)
@pytest.mark.parametrize("seed", range(25))
def test_nobody_is_fenced_when_gateways_are_replaced_by_ones_that_know_nothing(seed: int, assignor: str) -> None:
    world = live_through(seed, assignor, ways=(0, 1, None), replaces=True)
    assert not world.fenced
    world.run(60_000)
    assert sorted(number for member in world.live for number in member.owned) == list(range(PARTITIONS))


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("members", [1, 2, 10])
def test_the_coordinator_of_a_quiet_group_gets_few_more_heartbeats(client: ClientKind, members: int) -> None:
    got = []
    for hold_ms in (0, 15_000):
        world = World(1, "range", hold_ms)
        for _ in range(members):
            world.join(client=client)
        world.run(30_000)
        before = world.heartbeats
        world.run(300_000)
        got.append(world.heartbeats - before)
    assert got[1] <= 1.2 * got[0]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_a_member_that_the_coordinator_removes_beside_the_gateway_is_noticed_by_a_probe(assignor: str) -> None:
    world = World(2, assignor)
    members = [world.join() for _ in range(4)]
    world.run(30_000)
    members[0].crash()  # its session lasts 45 s
    world.run(45_000)
    left = world.now
    world.run(5_000)
    assert world.dark_ms
    assert sorted(number for member in world.live for number in member.owned) == list(range(PARTITIONS)), left
    assert not world.fenced
