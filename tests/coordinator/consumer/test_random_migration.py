"""Eager, cooperative and consumer members in one group, in any order of steps: nothing is ever owned twice.

After each step the shell checks what is on record (S1, S4, S10); here: what the members themselves may process, that
acknowledged commits stay, and that the group comes to rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations, count

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kohort.coordinator import Effects, GroupSettings
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from tests.coordinator.consumer.migrants import GROUP, TOPIC, ClassicClient, Client, ConsumerClient
from tests.coordinator.shell import Shell, durable

PLACES = 4
KINDS = ("eager", "cooperative", "consumer")


@dataclass
class World:
    """One group; in each place there is a client or none."""

    shell: Shell = field(default_factory=lambda: Shell(settings=GroupSettings(assignment_interval_ms=0)))
    clients: dict[int, Client] = field(default_factory=dict)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    moves: int = 0

    def __post_init__(self) -> None:
        self._names = count(1)
        self.shell.set_topics({TOPIC: 4})

    def start(self, place: int, kind: str) -> None:
        """A process starts; one that was there before is told to leave first."""
        self.leave(place)
        name = f"{kind}-{next(self._names)}"
        if kind == "consumer":
            self.clients[place] = ConsumerClient(name, self.shell)
        else:
            self.clients[place] = ClassicClient(name, self.shell, cooperative=kind == "cooperative")

    def leave(self, place: int) -> None:
        client = self.clients.pop(place, None)
        if client is not None and client.member_id and client.waits is None:
            request, version = client.leaving()
            self._deliver(self.shell.handle(request, (client.name, "leaves"), version, client.name))

    def kill(self, place: int) -> None:
        client = self.clients.pop(place, None)
        if client is not None and client.waits is not None:
            self.shell.disconnect(client.waits)

    def step(self, client: Client) -> None:
        """It sends its next request, unless it waits for an answer."""
        if client.waits is None:
            request, version = client.next_request()
            client.waits = (client.name, next(self._names))
            self._deliver(self.shell.handle(request, client.waits, version, client.name))

    def steps(self) -> None:
        for client in list(self.clients.values()):
            self.step(client)

    def wait(self, milliseconds: int) -> None:
        for effects in self.shell.wait(milliseconds):
            self._deliver(effects)

    def commit(self, client: Client, offset: int) -> None:
        """Of one partition that it owns."""
        if client.waits is None and client.owned:
            place = min(client.owned)
            token = (client.name, "commits", offset)
            effects = self.shell.handle(client.commit(place, offset), token, 9, client.name)
            response = effects.replies[token]
            assert isinstance(response, OffsetCommitResponse)
            if response.topics[0].partitions[0].error_code == ErrorCode.NONE:
                self.committed[place] = offset

    def fail_over(self) -> None:
        """The broker dies; who waits for an answer asks again."""
        for client in self.clients.values():
            client.waits = None
        self._deliver(self.shell.fail_over())

    def check(self) -> None:
        """No partition is in two members' hands; one that the coordinator has put out may not know it yet."""
        inside = [client for client in self.clients.values() if client.member_id in self._members()]
        for client, other in combinations(inside, 2):
            assert not client.owned & other.owned, (
                f"{client.name} and {other.name} both own {client.owned & other.owned}"
            )
        _, stored = durable(self.shell.shard).get(GROUP, (None, {}))
        assert self.committed.items() <= {place: value.offset for place, value in stored.items()}.items()

    def settle(self) -> None:
        """All partitions are owned, each by one."""
        for _ in range(150):
            self.steps()
            self.check()
            owned = [place for client in self.clients.values() for place in client.owned]
            if sorted(owned) == ConsumerClient("", self.shell).partitions and self._is_quiet():
                return
            self.wait(1_000)
        raise AssertionError(f"it does not come to rest: {[(c.name, sorted(c.owned)) for c in self.clients.values()]}")

    def _is_quiet(self) -> bool:
        return all(
            not isinstance(client, ClassicClient) or (client.synced and not client.joins)
            for client in self.clients.values()
        )

    def _members(self) -> set[str]:
        group = self.shell.shard.groups.get(GROUP) or self.shell.shard.consumer_groups.get(GROUP)
        return set() if group is None else set(group.members)

    def _deliver(self, effects: Effects) -> None:
        for token, response in effects.replies.items():
            for client in self.clients.values():
                if client.waits == token:
                    client.waits = None
                    client.receive(response)


places = st.integers(0, PLACES - 1)
actions = st.one_of(
    st.tuples(st.just("start"), places, st.sampled_from(KINDS)),
    st.tuples(st.just("step"), places, st.just("")),
    st.tuples(st.just("step"), places, st.just("")),
    st.tuples(st.just("steps"), st.integers(1, 4), st.just("")),
    st.tuples(st.just("wait"), st.sampled_from([10, 1_000, 3_000, 9_999, 25_000]), st.just("")),
    st.tuples(st.just("commit"), places, st.just("")),
    st.tuples(st.just("leave"), places, st.just("")),
    st.tuples(st.just("kill"), places, st.just("")),
    st.tuples(st.just("grow"), st.just(0), st.just("")),
    st.tuples(st.just("fail_over"), st.just(0), st.just("")),
)


def act(world: World, action: str, number: int, kind: str, turn: int) -> None:
    """Do one thing."""
    match action:
        case "start":
            world.start(number, kind)
        case "step" if number in world.clients:
            world.step(world.clients[number])
        case "steps":
            for _ in range(number):
                world.steps()
        case "wait":
            world.wait(number)
        case "commit" if number in world.clients:
            world.commit(world.clients[number], turn + 1)
        case "leave":
            world.leave(number)
        case "kill":
            world.kill(number)
        case "grow":
            world.shell.set_topics({TOPIC: min(len(ConsumerClient("", world.shell).partitions) + 1, 8)})
        case "fail_over":
            world.fail_over()


@given(st.lists(actions, max_size=60), st.sampled_from(KINDS))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_members_of_both_protocols_share_a_group(script: list[tuple[str, int, str]], last: str) -> None:
    world = World()
    world.start(0, KINDS[len(script) % 3])
    world.start(1, "eager")
    for turn, (action, number, kind) in enumerate(script):
        act(world, action, number, kind, turn)
        world.check()
    world.start(2, last)
    event(", ".join(sorted({client.name.split("-")[0] for client in world.clients.values()})))
    world.settle()
