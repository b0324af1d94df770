"""Members that do right and wrong things in any order: the invariants hold after every step.

After each step the shell checks S4, S10, and that something will end every rebalance and session (L4); the world
checks S1 and what the members were told. Here: S5, S7, L1 and S15.
"""

from __future__ import annotations

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kohort.coordinator import GroupConfig
from kohort.coordinator.classic.group import ClassicGroup
from kohort.coordinator.timers import OffsetExpiry
from kohort.model import TopicPartition
from tests.coordinator.members import Member, World
from tests.coordinator.shell import durable

MEMBERS = 7
CONFIG = GroupConfig(max_size=4, max_pending_members=3, offsets_retention_ms=3_600_000)


def world() -> World:
    """Two groups, five versions of clients, two processes that believe to be the same static member."""
    return World(
        [
            Member("a", "g", join_version=2, protocols=("range", "roundrobin")),
            Member("b", "g", protocols=("range", "roundrobin")),
            Member("c", "g", protocols=("roundrobin", "range", "sticky")),
            Member("d", "g", instance_id="i", protocols=("range",)),
            Member("e", "g", join_version=8, instance_id="i", protocols=("range",)),
            Member("x", "h", join_version=3),
            Member("y", "h", instance_id="i"),
        ],
        CONFIG,
    )


who = st.integers(0, MEMBERS - 1)
actions = st.one_of(
    st.tuples(st.just("step"), who),
    st.tuples(st.just("step"), who),
    st.tuples(st.just("steps"), st.integers(1, 3)),
    st.tuples(st.just("wait"), st.sampled_from([100, 1_000, 3_000, 9_999, 10_000, 20_000, 300_000])),
    st.tuples(st.just("commit"), who),
    st.tuples(st.just("leave"), who),
    st.tuples(st.just("restart"), who),
    st.tuples(st.just("disconnect"), who),
    st.tuples(st.just("resubscribe"), who),
    st.tuples(st.just("rejoin"), who),
    st.tuples(st.just("stale"), who),
    st.tuples(st.just("failover"), st.just(0)),
    st.tuples(st.just("lose"), who),
)


def act(world: World, action: str, number: int, step: int) -> None:
    """Do one thing."""
    member = world.members[number % MEMBERS]
    match action:
        case "step":
            world.step(member)
        case "steps":
            for _ in range(number):
                for every in world.members:
                    world.step(every)
        case "wait":
            world.wait(number)
        case "commit" if member.waits is None and member.synced:
            world.send(member, member.commit(step), 8)
        case "leave" if member.waits is None and member.member_id:
            world.send(member, member.leave(), 5)
            member.lose_identity()
        case "restart":
            member.restart()
        case "disconnect" if member.waits is not None:
            world.shell.disconnect(member.waits)
            member.waits = None
        case "resubscribe":
            member.topics = ("orders", f"topic-{step}")
            member.rejoin()
        case "rejoin":
            member.rejoin()
        case "stale" if member.waits is None and member.joined:
            stale_requests_change_nothing(world, member)
        case "failover":
            world.fail_over()
        case "lose" if member.waits is None and not member.fenced:
            world.shell.log_is_broken = True
            world.send(member, *member.next_request())
            world.fail_over()


def stale_requests_change_nothing(world: World, member: Member) -> None:
    """S5: an older generation, or an id that is not the member's."""
    before = state(world)
    group = world.shell.shard.groups.get(member.group_id)
    current = member.generation
    member.generation = (group.generation if group is not None else current) - 1
    for request, version in ((member.sync(), 5), (member.heartbeat(), 4), (member.commit(99), 8)):
        token = ("stale", version, world.shell.now)
        effects = world.shell.handle(request, token, version)
        assert list(effects.replies) == [token] and not effects.records and not effects.events
    member.generation = current
    assert state(world) == before


def state(world: World) -> object:
    """All that is known, beside when sessions end."""
    return durable(world.shell.shard), {key: _soft(group) for key, group in world.shell.shard.groups.items()}


def _soft(group: ClassicGroup) -> object:
    rebalance = group.rebalance
    return (
        group.state,
        group.generation,
        group.leader_id,
        dict(group.members),
        list(group.pending),
        list(rebalance.joining),
        list(rebalance.syncing),
        set(rebalance.sync_due),
    )


@given(st.lists(actions, max_size=60))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_members_do_breaks_a_group(script: list[tuple[str, int]]) -> None:
    played = world()
    for step, (action, number) in enumerate(script):
        act(played, action, number, step)
        acknowledged_commits_are_there(played)
    event(f"generations: {max((g.generation for g in played.shell.shard.groups.values()), default=0)}")
    every_group_settles(played)
    leaves_nothing_behind(played)


def acknowledged_commits_are_there(world: World) -> None:
    """S7, also after a failover."""
    offsets = {
        (group_id, place): value.offset
        for group_id, (_, stored) in durable(world.shell.shard).items()
        for place, value in stored.items()
    }
    assert world.committed.items() <= offsets.items()


def every_group_settles(world: World) -> None:
    """L1. One of the two with the same instance id must leave, or they would fence each other forever."""
    world.members = [member for member in world.members if member.name != "e"]
    for member in world.members:
        member.fenced = False
    # Ghosts of clients that went while their first join waited sync never, and cost a rebalance each.
    world.settle(within=200_000)
    owned = [(m.group_id, tp) for m in world.members for tp in m.owned]
    assert len(owned) == len(set(owned)) == 12, "every partition has one owner in either group"


def leaves_nothing_behind(world: World) -> None:
    """S15: when all members are gone and their offsets have expired, there are no groups, timers or parked requests."""
    world.members = []
    for _ in world.shell.wait(330_000 + CONFIG.offsets_retention_ms + 2 * CONFIG.offsets_retention_check_interval_ms):
        pass
    assert not world.shell.shard.groups
    assert set(world.shell.timers) == {OffsetExpiry()}
    assert not world.shell.shard.parked


def test_a_quiet_group_stays_as_it_is() -> None:
    # L2: heartbeats alone start no rebalance.
    quiet = world()
    quiet.members = [member for member in quiet.members if member.name in "abx"]
    quiet.settle(within=10_000)
    before = state(quiet)
    for _ in range(100):
        for member in quiet.members:
            quiet.step(member)
        quiet.wait(3_000)
    assert state(quiet) == before
    assert quiet.members[0].owned[0] == TopicPartition("orders", 0)
