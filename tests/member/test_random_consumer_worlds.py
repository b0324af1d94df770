"""Whatever happens to the members of a consumer group and to its coordinator, it settles and nobody shares a partition.

The member and the coordinator are the real ones; the world between them checks ownership after every step.
"""

from __future__ import annotations

from hypothesis import Phase as Phases
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kohort.member import PollStarted, Subscribe
from kohort.model import TopicPartition
from tests.member.world import Host, World

_ACTIONS = st.sampled_from(
    [
        *(
            "join",
            "join slow",
            "join matching",
            "join static",
            "join computing",
            "subscribe",
            "leave",
            "crash",
            "reset",
            "fail over",
        ),
        *("lose", "grow", "remake", "commit", "poll", "wait", "wait long"),
    ]
)
_MIXED = st.sampled_from(
    [
        *("join", "join slow", "join classic", "join classic", "join static", "leave", "leave", "crash"),
        *("reset", "fail over", "lose", "grow", "commit", "poll", "wait", "wait long"),
    ]
)
_EXAMPLES = settings(max_examples=75, deadline=None, phases=[Phases.explicit, Phases.reuse, Phases.generate])
_SCRIPTS = st.lists(st.tuples(_ACTIONS, st.integers(0, 7), st.integers(0, 400)), min_size=3, max_size=25)
_MIXED_SCRIPTS = st.lists(st.tuples(_MIXED, st.integers(0, 7), st.integers(0, 400)), min_size=3, max_size=25)


@_EXAMPLES
@given(script=_SCRIPTS)
def test_a_consumer_group_survives_whatever_happens(script: list[tuple[str, int, int]]) -> None:
    world, live = _played(script)
    if live:
        assert world.consumer_group.members.keys() == {host.name for host in live}
        epoch = world.consumer_group.epoch
        world.run(30_000)
        assert world.consumer_group.epoch == epoch, "the group does not come to rest"


_UNKNOWN_TO_A_COMMIT = [
    *(("commit", 0, 168), ("join static", 6, 186), ("lose", 0, 155), ("wait long", 6, 269), ("join slow", 5, 14)),
    *(("commit", 0, 168), ("join classic", 6, 46), ("join slow", 7, 324), ("wait long", 2, 273)),
    *(("join static", 7, 113), ("join slow", 7, 324), ("wait", 1, 400), ("join classic", 4, 2)),
]
"""A static member was removed, and a commit tells it so while its heartbeat waits for an answer that was lost."""


@_EXAMPLES
@example(script=_UNKNOWN_TO_A_COMMIT, assignor="range")
@given(script=_MIXED_SCRIPTS, assignor=st.sampled_from(["cooperative-sticky", "range"]))
def test_a_group_of_both_protocols_survives_whatever_happens(script: list[tuple[str, int, int]], assignor: str) -> None:
    _played(script, assignor)


def _played(script: list[tuple[str, int, int]], assignor: str = "range") -> tuple[World, list[Host]]:
    """The world in which all that happened, come to rest, and who is in the group then.

    Classic members offer that one assignor: what else they offer, a coordinator forgets when it fails over.
    """
    world = World({"t": 4, "u": 1})
    for number, (action, which, pause) in enumerate(script):
        _do(world, action, which, f"m{number}", assignor)
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
        wanted = {topic for host in live for topic in _wanted(world, host)}
        everything = {TopicPartition(topic, n) for topic in wanted for n in range(world.partitions[topic])}
        assert world.owners().keys() == everything
    for host in world.hosts:
        if not host.stopped:
            assert len(host.settled) == len(host.asked), "a commit was never settled"
    return world, live


def _wanted(world: World, host: Host) -> set[str]:
    return set(world.partitions) if not host.member.topics else set(host.member.topics) & set(world.partitions)


def _do(world: World, action: str, which: int, name: str, assignor: str) -> None:
    here = [host for host in world.hosts if not host.stopped]
    host: Host | None = here[which % len(here)] if here else None
    match action:
        case "join":
            world.consumer(name, "t", "u")
        case "join slow":
            world.consumer(name, "t", "u", callback_ms=700)
        case "join computing":
            world.consumer(name, "t", "u", assignors=["range"])
        case "join matching":
            world.consumer(name, expression="t|u")
        case "join classic":
            world.host(name, "t", "u", assignors=assignor)
        case "join static":
            world.consumer(name, "t", "u", instance_id=name)
        case "fail over":
            world.fail_over()
        case "lose":
            world.coordinator_is_lost = not world.coordinator_is_lost
        case "grow":
            if world.partitions["t"] < 7:
                world.add_partitions("t", world.partitions["t"] + 1)
        case "remake":
            partitions = world.partitions["u"]
            world.delete_topic("u")
            world.run(which * 1_000)
            world.add_partitions("u", partitions)
        case "wait":
            world.run(3_000)
        case "wait long":
            world.run(50_000)
        case _ if host is None:
            pass
        case "subscribe":
            if host.wants_in:
                host.handle(Subscribe(frozenset({"t"} if which % 2 else {"t", "u"})))
        case "leave":
            host.leave()
        case "crash":
            host.crash()
        case "reset":
            host.reset_connection()
        case "poll":
            host.poll()
        case "commit":
            if host.processing:
                host.asked.append(host.commit(dict.fromkeys(host.processing, which)))
