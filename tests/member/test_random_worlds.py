"""Whatever happens to members and their coordinator, a group becomes balanced, and no two members share a partition."""

from __future__ import annotations

from hypothesis import Phase as Phases
from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.member import Phase, PollStarted
from kohort.model import TopicPartition
from tests.member.world import Host, World

_ACTIONS = st.sampled_from(
    ["join", "join slow", "leave", "crash", "reset", "fail over", "lose", "grow", "commit", "poll", "wait", "wait long"]
)
_EXAMPLES = settings(max_examples=100, deadline=None, phases=[Phases.explicit, Phases.reuse, Phases.generate])
_ASSIGNORS = st.sampled_from(["cooperative-sticky", "range", "range,cooperative-sticky", "sticky"])
_SCRIPTS = st.lists(st.tuples(_ACTIONS, st.integers(0, 7), st.integers(0, 400)), min_size=3, max_size=25)


@_EXAMPLES
@given(
    script=_SCRIPTS, assignors=st.sampled_from(["cooperative-sticky", "range", "range,cooperative-sticky", "sticky"])
)
def test_a_group_survives_whatever_happens(script: list[tuple[str, int, int]], assignors: str) -> None:
    world = World({"t": 4, "u": 1})
    steps = iter(range(1000))
    for action, which, pause in script:
        _do(world, action, which, f"m{next(steps)}", assignors)
        world.run(pause)
    world.coordinator_is_lost = False
    live = [host for host in world.hosts if host.wants_in]
    for host in live:
        host.handle(PollStarted())
    # Crashed members go when their sessions end; the rest has nothing left to wait for.
    world.run(120_000)
    for host in live:
        assert host.errors == []
        assert host.is_settled, f"{host.name} is {host.member.phase.value}"
    if live:
        everything = {TopicPartition(topic, n) for topic, count in world.partitions.items() for n in range(count)}
        assert world.owners().keys() == everything
        assert world.members == len(live)
        sizes = sorted(len(host.processing) for host in live)
        assert "range" in assignors or sizes[-1] - sizes[0] <= 1
    generation = world.generation if "g" in world.shell.shard.groups else 0
    world.run(30_000)
    assert generation == (world.generation if "g" in world.shell.shard.groups else 0), "the group does not come to rest"
    for host in world.hosts:
        assert not any("is wrong" in warning for warning in host.warnings), "a leader complains of its own assignor"
        if not host.stopped:
            assert len(host.settled) == len(host.asked), "a commit was never settled"


def _do(world: World, action: str, which: int, name: str, assignors: str) -> None:
    here = [host for host in world.hosts if not host.stopped]
    host: Host | None = here[which % len(here)] if here else None
    match action:
        case "join":
            world.host(name, "t", "u", assignors=assignors)
        case "join slow":
            world.host(name, "t", "u", assignors=assignors, callback_ms=700)
        case "fail over":
            world.fail_over()
        case "lose":
            world.coordinator_is_lost = not world.coordinator_is_lost
        case "grow":
            if world.partitions["t"] < 7:
                world.add_partitions("t", world.partitions["t"] + 1)
        case "wait":
            world.run(3_000)
        case "wait long":
            world.run(50_000)
        case _ if host is None:
            pass
        case "leave":
            host.leave()
        case "crash":
            host.crash()
        case "reset":
            host.reset_connection()
        case "commit":
            host.asked.append(host.commit(dict.fromkeys(host.processing, which), within=20_000))
        case "poll":
            if host.member.phase is not Phase.UNSUBSCRIBED:
                host.poll()
