"""Members of a classic group, gateways and a coordinator that holds nothing, in virtual time from one seed.

Every message takes a random time, and each member has one connection, whose responses are in order. A member uses one
of the gateways, or none. A gateway can be replaced by one that knows nothing, which closes the connections of its
members.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from kohort.coordinator import ClientKind, GroupConfig, RequestContext, WaitingRequest
from kohort.errors import ErrorCode
from kohort.gateway.groups import GroupMirror, Outcome
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_protocol import (
    Assignment,
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.shell import Shell
from tests.gateway.classic_assignment import PARTITIONS, assign

INTERVAL: Millis = 3_000
VERSIONS = {JoinGroupRequest: 5, SyncGroupRequest: 3, HeartbeatRequest: 3, LeaveGroupRequest: 3}
FENCED = {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID}


class World:
    """One group. `hold_ms` 0 leaves the gateways out."""

    def __init__(self, seed: int, assignor: str, hold_ms: Millis = 15_000, *, gateways: int = 1) -> None:
        self.random = Random(seed)
        self.assignor = assignor
        self.hold_ms = hold_ms
        self.gateways = [Gateway(self, hold_ms) for _ in range(gateways if hold_ms else 0)]
        self.upstream = Shell(GroupConfig(initial_rebalance_delay_ms=0))
        self.members: list[Member] = []
        self.fenced: list[tuple[Millis, str, ErrorCode]] = []
        """Members that were told that they are none, by time, name and error."""
        self.dark_ms = 0
        """Sum over all partitions of the time without an owner."""
        self.heartbeats = 0
        """Heartbeats that the coordinator got."""
        self._order = count()
        self._events: list[tuple[Millis, int, Callable[[], None]]] = []
        self._waiting: dict[object, tuple[Link, Message, Any, bool]] = {}
        """Connection and request by token of the coordinator, and whether the gateway sent it itself."""
        self._tokens = count()

    @property
    def mirror(self) -> GroupMirror | None:
        """The groups of the first gateway."""
        return self.gateways[0].mirror if self.gateways else None

    @property
    def now(self) -> Millis:
        return self.upstream.now

    def join(self, **options: Any) -> "Member":
        member = Member(self, f"m{len(self.members)}", **options)
        self.members.append(member)
        member.join()
        return member

    @property
    def live(self) -> list["Member"]:
        return [member for member in self.members if not member.is_gone]

    def after(self, delay: Millis, call: Callable[[], None]) -> None:
        heappush(self._events, (self.now + delay, next(self._order), call))

    def latency(self) -> Millis:
        return self.random.choice((0, 1, 1, 2, 5))

    def run(self, duration: Millis) -> None:
        """Let time pass. At each step, no partition may have two owners."""
        end = self.now + duration
        while self.now < end:
            at = min([end, *(one[0] for one in self._events[:1]), *(at for at, _ in self.upstream.timers.values())])
            at = max(at, self.now)
            owned = [partition for member in self.live for partition in member.owned]
            assert len(owned) == len(set(owned)), f"two owners at {self.now}: {sorted(owned)}"
            for gateway in self.gateways:
                gateway.check_holds()
            if self.live:
                self.dark_ms += (PARTITIONS - len(owned)) * (at - self.now)
            for effects in self.upstream.wait(at - self.now):
                self._answered(effects.replies)
            while self._events and self._events[0][0] <= self.now:
                heappop(self._events)[2]()

    # The coordinator

    def arrives(self, link: "Link", request: Message, token: object, *, is_probe: bool) -> None:
        """Let a request arrive at the coordinator."""
        number = next(self._tokens)
        self._waiting[number] = link, request, token, is_probe
        self.heartbeats += isinstance(request, HeartbeatRequest)
        effects = self.upstream.handle(request, number, VERSIONS[type(request)], link.member.name)
        self._answered(effects.replies)

    def _answered(self, replies: Any) -> None:
        for number, response in replies.items():
            link, request, token, is_probe = self._waiting.pop(number)
            link.answered(token, request, response, is_probe=is_probe)

    def replace_gateway(self, number: int) -> None:
        """End a gateway, and start another one in its place. Members connect again when they notice."""
        old = self.gateways[number]
        old.is_open = False
        self.gateways[number] = Gateway(self, self.hold_ms)
        for member in self.live:
            if member.link.gateway is old:
                member.reconnect(self.gateways[number])


class Gateway:
    """A gateway of some members."""

    def __init__(self, world: World, hold_ms: Millis) -> None:
        self.world = world
        self.mirror = GroupMirror(hold_ms)
        self.is_open = True
        self._hold_ms = hold_ms
        self._timers: dict[object, int] = {}
        self._numbers = count()

    def check_holds(self) -> None:
        """No heartbeat may be held for longer than a third of its member's session."""
        for held in self.mirror.all_held:
            assert self.world.now - held.arrived_at <= min(self._hold_ms, 15_000) + 20, held

    def apply(self, outcome: Outcome) -> None:
        """Do what the mirror asks for."""
        for timer, at in (*outcome.effects.timers.items(), *outcome.timers.items()):
            number = self._timers[timer] = next(self._numbers)
            if at is not None:
                self.world.after(
                    max(at - self.world.now, 0),
                    lambda timer=timer, number=number: self._fire(timer, number),  # type: ignore[misc]
                )
        for token, response in outcome.effects.replies.items():
            assert isinstance(token, Token)
            token.link.deliver(token.request, response, token)
        for probe in outcome.probes:
            assert isinstance(probe.token, Token)
            assert probe.token.link.is_open
            probe.token.link.to_coordinator(probe.request, probe, is_probe=True)

    def _fire(self, timer: Any, number: int) -> None:
        if self.is_open and self._timers[timer] == number:
            self.apply(self.mirror.fire(timer, self.world.now))


@dataclass(eq=False)
class Token:
    """A request of a member."""

    link: "Link"
    request: Any


class Link:
    """The connection of one member to the coordinator, through a gateway or not."""

    def __init__(self, world: World, member: "Member", gateway: Gateway | None) -> None:
        self.world, self.member, self.gateway = world, member, gateway
        self.is_open = True
        self.held: Any = None
        self._up_at = self._down_at = 0

    def send(self, request: Message) -> None:
        """Send a request of the member to the gateway."""
        token = Token(self, request)
        self.world.after(self.world.latency(), lambda: self._at_gateway(request, token))

    def _at_gateway(self, request: Any, token: Any) -> None:
        world = self.world
        if not self.is_open:
            return
        if self.held is not None:
            self.release(
                WaitingRequest.REQUEST if isinstance(request, SyncGroupRequest) else WaitingRequest.OWN_HEARTBEAT
            )
        self.to_coordinator(request, token, is_probe=False)
        if self.gateway is not None:
            self.gateway.apply(self.gateway.mirror.sent(request, self._context(token), world.now))

    def release(self, behind: WaitingRequest) -> None:
        """Answer what is held, because a request arrived behind it."""
        assert self.gateway is not None
        held, self.held = self.held, None
        self.gateway.apply(self.gateway.mirror.release(held, held.request, behind, self.world.now))

    def commit(self) -> None:
        """A commit arrives, which is answered by the coordinator at once."""
        if self.held is not None:
            self.release(WaitingRequest.REQUEST)

    def _context(self, token: Any) -> RequestContext:
        version = VERSIONS[type(token.request)]
        name = self.member.name
        return RequestContext(token, version, name, f"/{name}", may_hold=True, client=self.member.client)

    def to_coordinator(self, request: Any, token: Any, *, is_probe: bool) -> None:
        self._up_at = max(self._up_at, self.world.now + self.world.latency())
        self.world.after(
            self._up_at - self.world.now, lambda: self.world.arrives(self, request, token, is_probe=is_probe)
        )

    def answered(self, token: Any, request: Any, response: Any, *, is_probe: bool) -> None:
        """Let the coordinator's response travel to the gateway."""
        self._down_at = max(self._down_at, self.world.now + self.world.latency())

        def arrive() -> None:
            gateway, now = self.gateway, self.world.now
            if not self.is_open:
                if is_probe and gateway is not None:
                    gateway.mirror.probe_lost(token)
                return
            if gateway is None:
                self.deliver(request, response, token)
            elif is_probe:
                gateway.apply(gateway.mirror.probed(token, response, now))
            else:
                self.held = token
                gateway.apply(gateway.mirror.answered(request, response, self._context(token), now))

        self.world.after(self._down_at - self.world.now, arrive)

    def deliver(self, request: Any, response: Any, token: Any) -> None:
        if self.held == token:
            self.held = None
        self.world.after(self.world.latency(), lambda: self.member.received(request, response, self))

    def close(self) -> None:
        """The member's process has ended, or its connection."""
        self.is_open = False
        if self.held is not None and self.gateway is not None:
            self.gateway.mirror.disconnected(self.held)
            self.gateway.mirror.abandoned(self.held.request, self.held)
            self.held = None


class Member:
    """A member that does what the clients do, and nothing else."""

    def __init__(
        self, world: World, name: str, client: ClientKind = ClientKind.OTHER, *, through: int | None = 0
    ) -> None:
        """Let it use the gateway with that number, or none."""
        self.world, self.name, self.client = world, name, client
        self.link = Link(world, self, world.gateways[through] if world.gateways and through is not None else None)
        self.session_timeout_ms: Millis = 45_000
        self.member_id, self.generation = "", -1
        self.owned: frozenset[int] = frozenset()
        self.is_gone = False
        self._joins = self._beats = False
        self._round = 0

    @property
    def is_eager(self) -> bool:
        return self.world.assignor == "range"

    def join(self) -> None:
        """Send JoinGroup. An eager member has given up everything before."""
        self._joins, self._round = True, self._round + 1
        if self.is_eager:
            self.owned = frozenset()
        owned = [TopicPartition("t", number) for number in sorted(self.owned)]
        metadata = encode_subscription(Subscription(["t"], owned_partitions=owned))
        self.link.send(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=self.session_timeout_ms,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name=self.world.assignor, metadata=metadata)],
            )
        )

    def leave(self) -> None:
        self.owned, self.is_gone = frozenset(), True
        self.link.commit()
        self.link.send(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=self.member_id)]))

    def crash(self) -> None:
        self.owned, self.is_gone = frozenset(), True
        self.link.close()

    def reconnect(self, gateway: Gateway | None) -> None:
        """Its connection is closed, and it opens another one. A client repeats its heartbeat or its join then."""
        self.link.close()
        self.link = Link(self.world, self, gateway)
        self._beats = False
        if self._joins:
            self.world.after(100, self.join)
        else:
            self._beat_in(100)

    def received(self, request: Any, response: Any, link: Link) -> None:
        """Take a response."""
        if self.is_gone or isinstance(response, LeaveGroupResponse) or link is not self.link:
            return
        code = ErrorCode(response.error_code)
        if isinstance(response, HeartbeatResponse):
            self._beats = False
            is_rdkafka = self.client is ClientKind.LIBRDKAFKA
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and is_rdkafka:
                self.world.after(100, lambda: self._resend(request))
                return
            if self._joins or (request.generation_id != self.generation and not (is_rdkafka and code in FENCED)):
                return  # as the clients do
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            self.join()
        elif code in FENCED:
            self.world.fenced.append((self.world.now, self.name, code))
            self.member_id, self.generation, self.owned = "", -1, frozenset()
            self.join()
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.join()
        elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._beat_in(100)
        else:
            assert code is ErrorCode.NONE, code
            if isinstance(response, JoinGroupResponse):
                self._joined(response)
            elif isinstance(response, SyncGroupResponse):
                self._synced(response)

    def _resend(self, request: HeartbeatRequest) -> None:
        """Send the same bytes again, as librdkafka does, although the member may have joined meanwhile."""
        if not self.is_gone and not self._beats:
            self._beats = True
            self.link.send(request)

    def _joined(self, response: JoinGroupResponse) -> None:
        self.generation, self.member_id = response.generation_id, response.member_id
        shares = []
        if response.leader == response.member_id:
            owned = {
                one.member_id: {p.partition for p in decode_subscription(one.metadata).owned_partitions}
                for one in response.members
            }
            shares = [
                SyncGroupRequestAssignment(
                    member_id=member_id,
                    assignment=encode_assignment(Assignment([TopicPartition("t", number) for number in sorted(share)])),
                )
                for member_id, share in assign(owned, is_eager=self.is_eager).items()
            ]
        self.link.send(
            SyncGroupRequest(group_id="g", generation_id=self.generation, member_id=self.member_id, assignments=shares)
        )

    def _synced(self, response: SyncGroupResponse) -> None:
        told = decode_assignment(response.assignment).partitions if response.assignment else ()
        assigned = frozenset(partition.partition for partition in told)
        gives = bool(self.owned - assigned)
        self.owned, self._joins = assigned, False
        if gives and not self.is_eager:
            self.join()
        else:
            self._beat_in(INTERVAL)

    def _beat_in(self, delay: Millis) -> None:
        number = self._round

        def beat() -> None:
            if self.is_gone or self._joins or number != self._round:
                return
            if not self._beats:
                self._beats = True
                self.link.send(HeartbeatRequest(group_id="g", generation_id=self.generation, member_id=self.member_id))
            self._beat_in(INTERVAL)

        self.world.after(delay, beat)
