"""Random consumer groups behind gateways: nobody is fenced, no commit is lost, and changes are prompt."""

from collections.abc import Sequence
from random import Random

import pytest

from kohort.coordinator import ClientKind
from tests.gateway.consumer_world import GRACE, SHORT, World

CLIENTS = (ClientKind.OTHER, ClientKind.JAVA, ClientKind.LIBRDKAFKA, ClientKind.KOHORT)
WAYS = {"one": (0,), "beside": (0, None), "two-gateways": (0, 1)}
FAULTS = ("replace", "cut", "move", "kill", "reset")


def live_through(
    seed: int, hold_ms: int = 15_000, ways: Sequence[int | None] = (0,), faults: Sequence[str] = ()
) -> World:
    """Let members join, leave, restart, crash and commit at random, and then let the group settle.

    `ways` are the gateways that members use, None for none. `faults` happen at random, too.
    """
    world = World(seed, hold_ms, gateways=2)
    random, ways_and_faults = world.random, Random(seed)

    def join() -> None:
        world.join(client=random.choice(CLIENTS), through=ways_and_faults.choice(ways))

    for _ in range(random.randint(1, 4)):
        join()
    world.run(10_000)
    for _ in range(25):
        match random.choice(("join", "leave", "commit", "commit", "wait", "restart")):
            case "join" if len(world.live) < 6:
                join()
            case "leave" if len(world.live) > 1:
                random.choice(world.live).leave()
            case "restart" if world.live:
                random.choice(world.live).leave()
                world.run(random.choice((1, 100, 800)))
                join()
            case "commit":
                for member in world.live:
                    member.commit()
        world.run(random.choice((0, 1, 5, 20, 100, 400, 3_000, 12_000)))
        if faults and ways_and_faults.random() < 0.2:
            _fail(world, ways_and_faults, ways_and_faults.choice(faults))
    world.run(30_000)
    return world


def _fail(world: World, random: Random, fault: str) -> None:
    number = random.randrange(2)
    match fault:
        case "replace" if world.gateways:
            world.replace_gateway(number)
        case "cut" if world.gateways:
            world.cut_off(number, random.choice((50, 1_000, 4_000, 12_000)))
        case "move":
            world.move_coordinator(random.choice((0, 300, 3_000)), broker_died=random.random() < 0.5)
        case "reset" if world.live:
            random.choice(world.live).reconnect()
        case "kill" if len(world.live) > 1:
            random.choice(world.live).crash()


@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("seed", range(12))
def test_a_random_group_settles_and_nobody_is_fenced(seed: int, ways: Sequence[int | None]) -> None:
    world = live_through(seed, ways=ways)
    assert not world.fenced
    assert not world.read_twice
    assert world.settled()
    world.check_holds()


@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("seed", range(12))
def test_with_faults_nobody_is_fenced_without_a_cause_and_no_commit_is_lost(
    seed: int, ways: Sequence[int | None]
) -> None:
    world = live_through(seed, ways=ways, faults=FAULTS)
    assert not world.fenced
    world.run(60_000)
    assert world.settled()
    world.check_holds()


@pytest.mark.parametrize("ways", WAYS.values(), ids=WAYS)
def test_partitions_have_an_owner_for_more_of_the_time_than_without_a_gateway(ways: Sequence[int | None]) -> None:
    through = [live_through(seed, ways=ways) for seed in range(10)]
    direct = [live_through(seed, hold_ms=0) for seed in range(10)]
    assert sum(world.dark_ms for world in through) < sum(world.dark_ms for world in direct)
    # Of 40 such worlds without a gateway, the longest is dark for 8.4 s; of 10, for 5.0 s. So the longest of few says
    # little: a partition may wait for heartbeats of two members, which come every 5 s, and for one that gives it up.
    assert sum(world.longest_dark for world in through) < sum(world.longest_dark for world in direct)
    assert max(world.longest_dark for world in through) <= 2 * 5_000 + 200


def test_the_partitions_of_a_crashed_member_are_given_away_within_the_grace() -> None:
    surely_gone = 0
    for seed in range(10):
        world = World(seed)
        members = [world.join(client=client) for client in CLIENTS]
        world.run(30_000)
        crashed = members[seed % len(members)]
        waited = crashed.link.awaited_answer
        surely_gone += waited
        crashed.crash()
        world.run((SHORT if waited else GRACE) + 500)
        assert world.settled(), seed
        assert not world.fenced
    assert surely_gone


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("members", [1, 2, 10])
def test_the_coordinator_of_a_quiet_group_gets_few_more_heartbeats(client: ClientKind, members: int) -> None:
    got = []
    for hold_ms in (0, 15_000):
        world = World(1, hold_ms)
        for _ in range(members):
            world.join(client=client)
        world.run(30_000)
        before = world.heartbeats
        world.run(300_000)
        got.append(world.heartbeats - before)
    assert got[1] <= 1.2 * got[0]


def test_a_change_that_passes_the_gateway_reaches_all_members_at_once() -> None:
    for seed in range(10):
        world = World(seed)
        for client in CLIENTS:
            world.join(client=client)
        world.run(30_000)
        dark = world.dark_ms
        world.join()
        world.run(300)
        world.members[0].leave()
        world.run(300)
        assert world.settled(), seed
        assert world.dark_ms - dark < 12 * 100, seed
