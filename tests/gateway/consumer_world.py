"""Members of a consumer group (KIP-848), gateways and a coordinator that holds nothing, in virtual time from one seed.

The gateways are `GroupRequests` with the mirror, its timers and its rules for lost members. Every message takes a
random time, and each member has one connection, whose responses are in order. Gateways are replaced by ones that know
nothing or cut off from the coordinator, and the coordinator moves. What may not happen is checked when it happens.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from kohort.coordinator import INFERRED_GRACE, GroupConfig, GroupSettings, RequestContext
from kohort.errors import ErrorCode
from kohort.gateway.group_requests import GroupRequests
from kohort.model import Millis
from kohort.sim.environment import Agenda, VirtualLoop
from kohort.sim.environment.loop import Handle
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.group_records import OffsetCommitValue
from kohort.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.coordinator.shell import Shell
from tests.gateway.consumer_links import Link
from tests.gateway.consumer_member import Member

PARTITIONS = 12
INTERVAL: Millis = 5_000
SESSION: Millis = 45_000
GRACE: Millis = 5_500
"""Time that a Kohort broker, and so the gateway, derives from the usual heartbeat interval of 3 s."""
SHORT: Millis = 1_500
"""The same if the member's process is very likely gone."""
VERSIONS = {ConsumerGroupHeartbeatRequest: 1, OffsetCommitRequest: 9}
_GROUP = "g"


class World:
    """One group. `hold_ms` 0 leaves the gateways out."""

    def __init__(self, seed: int, hold_ms: Millis = 15_000, *, gateways: int = 1) -> None:
        self.random = Random(seed)
        self.agenda = Agenda(1_000.0)
        self.loop = VirtualLoop(self.agenda, "world")
        self.upstream = Shell(
            GroupConfig(), now=1_000_000, settings=GroupSettings(SESSION, INTERVAL, assignment_interval_ms=0)
        )
        self.upstream.set_topics({"t": PARTITIONS})
        self._hold_ms = hold_ms
        self.gateways = [self._new_gateway() for _ in range(gateways if hold_ms else 0)]
        self.members: list[Member] = []
        self.fenced: list[tuple[Millis, str, ErrorCode]] = []
        """Members that were told that they are none although the coordinator had no cause of its own."""
        self.dark_ms = 0
        """Sum over all partitions of the time without an owner."""
        self.longest_dark: Millis = 0
        self.heartbeats = 0
        """Heartbeats that the coordinator got."""
        self.home = 0
        """Number of times that the coordinator has moved."""
        self.loaded_at: Millis = 0
        self.processed: dict[int, int] = {}
        """Number of records of each partition that some member has processed."""
        self.read_twice = 0
        self.committed: dict[int, int] = {}
        """Highest acknowledged offset of each partition."""
        self._dark_since: dict[int, Millis] = {}
        self._wake: Any = None

    def _new_gateway(self) -> "Gateway":
        made: list[Gateway] = []
        self.loop.call_soon(lambda: made.append(Gateway(self._hold_ms)))
        self.agenda.run(self.agenda.now)
        return made[0]

    @property
    def now(self) -> Millis:
        return round(self.loop.time() * 1_000)

    def join(self, **options: Any) -> "Member":
        member = Member(self, f"m{len(self.members)}", **options)
        self.members.append(member)
        self.after(0, member.join)
        return member

    @property
    def live(self) -> list["Member"]:
        return [member for member in self.members if not member.is_gone]

    def after(self, delay: Millis, call: Callable[[], object]) -> None:
        # In whole milliseconds, so that messages with the same time stay in their order.
        self.agenda.later((self.now + delay) / 1_000, Handle((self.loop, call, ())))

    def latency(self) -> Millis:
        return self.random.choice((0, 1, 1, 2, 5))

    def run(self, duration: Millis) -> None:
        """Let time pass."""
        self.agenda.run(self.agenda.now + duration / 1_000)
        self._catch_up()
        self.owners_changed()

    # The coordinator

    def arrives(self, link: "Link", request: Any, *, is_own: bool) -> Message:
        """Return the coordinator's response to a request that arrives. `is_own`: the gateway leaves for a member."""
        self._catch_up()
        self.heartbeats += isinstance(request, ConsumerGroupHeartbeatRequest)
        if link.home != self.home:
            return _error(request, ErrorCode.NOT_COORDINATOR)
        if self.now < self.loaded_at:
            return _error(request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        assert not is_own or link.member.is_gone, f"the gateway removes {link.member.name}, which lives"
        before = self.durable()
        effects = self.upstream.handle(request, (link, self.now, id(request)), VERSIONS[type(request)])
        (response,) = effects.replies.values()
        after = self.durable()
        assert all(offset <= after.get(partition, -1) for partition, offset in before.items()), "a commit was rewound"
        if isinstance(response, ConsumerGroupHeartbeatResponse):
            link.member.told(response, link)
        self._set_wake()
        return response

    def durable(self) -> dict[int, int]:
        """Return the committed offset of each partition."""
        group = self.upstream.shard.consumer_groups.get(_GROUP)
        offsets = {} if group is None else group.offsets.get("t", {})
        values = {partition: record.value for partition, record in offsets.items()}
        return {partition: value.offset for partition, value in values.items() if isinstance(value, OffsetCommitValue)}

    @property
    def known(self) -> set[str]:
        """IDs of the coordinator's members."""
        group = self.upstream.shard.consumer_groups.get(_GROUP)
        return set() if group is None else set(group.members)

    def _catch_up(self) -> None:
        """Let the coordinator's timers fire. It removes only members that are gone, or that it could not hear."""
        before = self.known
        for effects in self.upstream.wait(max(self.now - self.upstream.now, 0)):
            assert not effects.replies
        for member in self.live:
            if member.member_id in before - self.known:
                unheard = self.now - member.unheard_at <= 2 * SESSION
                assert unheard, f"the session of {member.name}, which lives, has expired"
                member.is_expired = True

    def _set_wake(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        if self.upstream.timers:
            at = min(at for at, _ in self.upstream.timers.values())
            self._wake = self.loop.call_at((at + 1) / 1_000, self._woken)

    def _woken(self) -> None:
        self._wake = None
        self._catch_up()
        self._set_wake()

    def would_tell(self, member: "Member") -> bool:
        """Return whether the coordinator has news for a member, or the gateway has, as a copy of the former says."""
        copy = self.upstream.loaded()
        copy.loaded(self.upstream.now)
        group = copy.consumer_groups.get(_GROUP)
        known = None if group is None else group.members.get(member.member_id)
        if known is None or known.epoch != member.epoch:
            return True
        asked = ConsumerGroupHeartbeatRequest(
            group_id=_GROUP, member_id=member.member_id, member_epoch=known.epoch, topic_partitions=None
        )
        response = copy.handle(asked, RequestContext("copy", 1), self.upstream.now).replies["copy"]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return bool(response.error_code or response.assignment or response.member_epoch != known.epoch)

    # Faults

    def replace_gateway(self, number: int) -> None:
        """End a gateway, and start another one in its place. Members connect again when they notice."""
        old = self.gateways[number]
        old.end()
        self.gateways[number] = self._new_gateway()
        for member in self.live:
            if member.link.gateway is old:
                member.through = self.gateways[number]
                member.reconnect()

    def cut_off(self, number: int, duration: Millis) -> None:
        """Let nothing pass between a gateway and the coordinator. What is sent meanwhile arrives afterwards."""
        self.gateways[number].cut_until = self.now + duration
        for member in self.live:
            if member.link.gateway is self.gateways[number]:
                member.unheard_at = self.now + duration

    def move_coordinator(self, loading: Millis, *, broker_died: bool) -> None:
        """Let another broker load the group. The former one rejects requests, or is dead."""
        self._catch_up()
        self.home += 1
        self.loaded_at = self.now + loading
        self.upstream.fail_over()
        self._set_wake()
        for member in self.live if broker_died else ():
            member.link.upstream_lost()

    # What members own, by their own words

    def owners_changed(self) -> None:
        """Check that no partition has two owners, and count the time without one."""
        owned = [partition for member in self.live if not member.is_expired for partition in member.owned]
        assert len(owned) == len(set(owned)), f"two owners at {self.now}: {sorted(owned)}"
        dark = set(range(PARTITIONS)).difference(owned) if self.live else set()
        for partition in self._dark_since.keys() - dark:
            lasted = self.now - self._dark_since.pop(partition)
            self.dark_ms += lasted
            self.longest_dark = max(self.longest_dark, lasted)
        for partition in dark - self._dark_since.keys():
            self._dark_since[partition] = self.now

    def settled(self) -> bool:
        """Return whether all partitions have an owner."""
        return sorted(number for member in self.live for number in member.owned) == list(range(PARTITIONS))

    def check_holds(self) -> None:
        """No heartbeat of a member may be held whose member should have had news for longer than its interval."""
        for gateway in self.gateways:
            for link in gateway.links:
                if link.held is not None and link.is_open:
                    assert not self.would_tell(link.member), f"{link.member.name} is kept waiting"


class Gateway:
    """A gateway of some members. It must be made while the loop runs."""

    def __init__(self, hold_ms: Millis) -> None:
        self.groups = GroupRequests(hold_ms, INFERRED_GRACE, clients=lambda: (link.who for link in self.links))
        self.cut_until: Millis = 0
        self.links: list[Link] = []
        self.is_open = True

    def end(self) -> None:
        """The process is killed."""
        self.is_open = False
        self.groups.keep_members()
        self.groups.close()


def _error(request: Message, code: ErrorCode) -> Message:
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        return ConsumerGroupHeartbeatResponse(error_code=code, member_id=request.member_id)
    assert isinstance(request, OffsetCommitRequest)
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
