"""Random classic groups behind a gateway: nobody is fenced, every partition has one owner, and changes are prompt."""

import pytest

from kohort.coordinator import ClientKind
from tests.gateway.classic_world import PARTITIONS, World

ASSIGNORS = ("range", "cooperative-sticky")
CLIENTS = (ClientKind.OTHER, ClientKind.JAVA, ClientKind.LIBRDKAFKA, ClientKind.KAFKA_PYTHON)


def live_through(seed: int, assignor: str, hold_ms: int = 15_000) -> World:
    """Let members join, leave, restart and commit at random, and then let the group settle."""
    world = World(seed, assignor, hold_ms)
    random = world.random
    for _ in range(random.randint(1, 4)):
        world.join(client=random.choice(CLIENTS))
    world.run(10_000)
    for _ in range(25):
        stable = [member for member in world.live if member.member_id]
        match random.choice(("join", "leave", "commit", "commit", "wait", "restart")):
            case "join" if len(world.live) < 6:
                world.join(client=random.choice(CLIENTS))
            case "leave" if len(stable) > 1:
                random.choice(stable).leave()
            case "restart" if stable:
                random.choice(stable).leave()
                world.run(random.choice((1, 100, 800)))
                world.join(client=random.choice(CLIENTS))
            case "commit":
                for member in stable:
                    member.link.commit()
        world.run(random.choice((0, 1, 5, 20, 100, 400, 3_000, 12_000)))
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
