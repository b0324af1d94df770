"""A classic group as its requests and responses show it: facts for the prompt room. Pure."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kohort.coordinator import ClientKind, RequestContext, are_cooperative, is_eager_assignor
from kohort.coordinator.prompt import (
    USUAL_HEARTBEAT_INTERVAL,
    ClassicHeartbeats,
    FormerMembers,
    RebalanceNotice,
    RestartingMembers,
)
from kohort.errors import ErrorCode
from kohort.gateway.groups.heartbeat_budget import HeartbeatBudget
from kohort.model import Millis
from kohort.wire.messages.join_group import JoinGroupRequest
from kohort.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

SHORTEST_SESSION: Millis = 6_000
"""Session timeout assumed of a member that joined before the gateway started.

Source: the default of group.min.session.timeout.ms.
"""
_SHORTEST_INTERVAL: Millis = 500
"""librdkafka sends a heartbeat as soon as it has its assignment, which does not tell its interval."""


class Phase(Enum):
    """What the coordinator does with the group, as far as its answers show it."""

    STABLE = "nothing; or the gateway does not know better"
    JOINING = "it answers heartbeats with REBALANCE_IN_PROGRESS, and waits for members to join"
    SYNCING = "it has formed a generation, and waits for the leader's assignment"


@dataclass(slots=True)
class MirroredClassicMember:
    """Member of a classic group. It implements `ClassicMemberFacts`."""

    member_id: str
    client: ClientKind = ClientKind.OTHER
    client_id: str = ""
    client_host: str = ""
    instance_id: str | None = None
    session_timeout_ms: Millis = SHORTEST_SESSION
    rebalance_timeout_ms: Millis = 0
    protocols: Mapping[str, bytes] = field(default_factory=dict)
    """Subscriptions by assignor; empty if the member joined before the gateway started."""
    joined_at: Millis = 0
    is_new: bool = False
    heartbeats: ClassicHeartbeats = field(default_factory=ClassicHeartbeats)
    verdict: ErrorCode | None = None
    """Error that the coordinator answered to a probe, and that the member has not received."""
    first_after_ms: Millis = 0
    """Time from its assignment to its first heartbeat, which no hold has delayed; 0 if unknown."""
    heard_at: Millis = 0
    """Time of the last request of the member."""
    is_lost: bool = False
    """Whether the gateway leaves in its place, because its connection is closed."""

    @property
    def interval_ms(self) -> Millis:
        """Interval at which it would send heartbeats if none were held.

        Clients that send the next one when the last is answered show it only by the first one of a generation.
        """
        known = self.heartbeats.interval_ms
        return self.first_after_ms or min(known or USUAL_HEARTBEAT_INTERVAL, USUAL_HEARTBEAT_INTERVAL)

    def beats(self, now: Millis) -> None:
        """Note a heartbeat, before the prompt room does."""
        gap = now - self.heartbeats.heard_at
        if self.heartbeats.heard_at and not self.heartbeats.heartbeat_at and gap >= _SHORTEST_INTERVAL:
            self.first_after_ms = gap

    def describe(self, request: JoinGroupRequest) -> None:
        """Note what a JoinGroup tells about the member."""
        self.instance_id, self.session_timeout_ms = request.group_instance_id, request.session_timeout_ms
        timeout = request.rebalance_timeout_ms
        self.rebalance_timeout_ms = timeout if timeout >= 0 else request.session_timeout_ms
        # Of a repeated name the first one counts, as in Kafka.
        self.protocols = {offered.name: offered.metadata for offered in reversed(request.protocols)}


@dataclass(slots=True)
class HeldSync:
    """SyncGroup whose response waits for members that give up partitions."""

    token: Hashable
    request: SyncGroupRequest
    response: SyncGroupResponse


@dataclass(slots=True)
class MirroredClassicGroup:
    """A classic group. It implements `ClassicGroupFacts`."""

    group_id: str
    budget: HeartbeatBudget
    members: dict[str, MirroredClassicMember] = field(default_factory=dict)
    """Members that use the gateway; those beside it are unknown."""
    generation: int = -1
    """Highest generation that was seen."""
    phase: Phase = Phase.STABLE
    protocol_type: str | None = None
    protocol: str | None = None
    """Assignor of the generation; None if it began before the gateway started."""
    leader_id: str = ""
    generation_at: Millis | None = None
    notice: RebalanceNotice = field(default_factory=RebalanceNotice)
    restarts: RestartingMembers = field(default_factory=RestartingMembers)
    former_members: FormerMembers = field(default_factory=FormerMembers)
    joins: dict[Hashable, JoinGroupRequest] = field(default_factory=dict)
    """JoinGroups that the coordinator has not answered, by token."""
    syncs: dict[str, HeldSync] = field(default_factory=dict)
    """Held SyncGroups by member ID."""
    revoking_members: frozenset[str] | None = None
    """Members that must give up partitions, while the SyncGroups of all others wait for them; None otherwise."""
    new_members_until: Millis | None = None
    """Latest time until which the rebalance of the last new member waits for more."""
    probed: dict[str, None] = field(default_factory=dict)
    """Members for which a probe is under way."""
    to_ask: dict[str, None] = field(default_factory=dict)
    """Members for which the coordinator is asked next, because only it knows the answer to their held heartbeats."""
    suspects_in: Millis = 0
    """Delay of the next probe while a JoinGroup is not answered; 0 if nothing is suspected."""
    ask_again: bool = False
    """Whether something happened since the probe under way was sent."""
    answered_at: Millis = 0
    """Time of the coordinator's last answer to a heartbeat of the generation."""
    _counted: int = -1
    _counted_at: Millis = 0
    _heartbeats_per_ms: float = 0.0

    @property
    def rejoined(self) -> Collection[str]:
        """Members that have joined in the current rebalance, and wait for the others."""
        return {join.member_id for join in self.joins.values() if join.member_id in self.members}

    def heard(self, member_id: str, context: RequestContext, now: Millis) -> MirroredClassicMember:
        """Return a member that has sent a request, which is remembered from then on."""
        member = self.members.get(member_id)
        if member is None:
            member = MirroredClassicMember(member_id, context.client, context.client_id, context.client_host)
            self.members[member_id] = member
        member.heard_at = now
        return member

    def rejoins(self, member_id: str) -> bool:
        """Return whether a JoinGroup with this member ID waits for the coordinator's answer."""
        return any(join.member_id == member_id for join in self.joins.values())

    @property
    def awaits_joins(self) -> bool:
        """Whether a rebalance is in its join phase."""
        return self.phase is Phase.JOINING

    @property
    def all_process(self) -> bool:
        """Whether no rebalance is in progress, and none is about to follow because members must give up partitions."""
        return self.phase is Phase.STABLE and self.revoking_members is None

    @property
    def is_eager(self) -> bool:
        """Whether members give up all partitions when they learn of a rebalance; no if the assignor is unknown."""
        return is_eager_assignor(self.protocol_type, self.protocol)

    @property
    def is_cooperative(self) -> bool:
        """Whether all members keep processing their partitions while the group rebalances (KIP-429)."""
        return all(
            member.protocols and are_cooperative(self.protocol_type, member.protocols)
            for member in self.members.values()
        )

    @property
    def rebalance_timeout_ms(self) -> Millis:
        """The longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def heartbeats_per_ms(self, now: Millis) -> float:
        """Return how many heartbeats the members would send if none were held.

        They are counted again when their number has changed, and after as many milliseconds as there are members: to
        count them for each heartbeat would take most of the time in a large group.
        """
        members = len(self.members)
        if members != self._counted or now - self._counted_at >= members:
            self._counted, self._counted_at = members, now
            self._heartbeats_per_ms = sum(1 / member.interval_ms for member in self.members.values())
        return self._heartbeats_per_ms

    def begin(self) -> None:
        """Begin a rebalance: the members are to join again."""
        self.phase, self.notice, self.revoking_members = Phase.JOINING, RebalanceNotice(), None
        self.suspects_in = 0

    def has_idled_for(self, session_times: int, now: Millis) -> bool:
        """Return whether no member was heard for as many sessions, so that the coordinator knows none of them."""
        return not self.joins and all(
            now - member.heard_at > session_times * member.session_timeout_ms for member in self.members.values()
        )
