"""A classic group: its members, its state and its votes. The rules for changes are in join, sync and membership."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from kohort.coordinator.classic.member import Member
from kohort.coordinator.classic.rebalance import Rebalance
from kohort.coordinator.classic.states import PREDECESSORS, GroupState
from kohort.coordinator.prompt import FormerMembers, RebalanceNotice, RestartingMembers
from kohort.coordinator.subscriptions import CONSUMER, are_cooperative, is_eager_assignor, subscribed_topics
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.group_log import CommittedOffset
from kohort.wire.messages.group_records import GroupMetadataValue


class ClassicGroup:
    """One group. Only replay writes `stored` and `offsets`; the rest is rebuilt from them after a failover."""

    __slots__ = (
        "_supporters",
        "empty_since",
        "former_members",
        "generation",
        "group_id",
        "leader_id",
        "members",
        "offsets",
        "pending",
        "protocol",
        "protocol_type",
        "rebalance",
        "restarts",
        "state",
        "static_ids",
        "stored",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.stored: GroupMetadataValue | None = None
        """Last generation that was written; None for a group that only has offsets or is forming its first one."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        """Assignor that the members elected; None before the first vote and in an empty group."""
        self.leader_id: str | None = None
        self.empty_since: Millis | None = None
        """Time at which the group became empty; None for records older than KIP-211 and groups without a record."""
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """Member ID by instance ID (KIP-345)."""
        self.pending: dict[str, None] = {}
        """Member IDs that a first join handed out and that are not used yet (KIP-394), oldest first."""
        self.rebalance = Rebalance()
        self.offsets: dict[str, dict[int, CommittedOffset]] = {}
        """Last commit by topic and partition."""
        self.former_members = FormerMembers()
        """Members of recent generations, which may return; unused if no heartbeats are held."""
        self.restarts = RestartingMembers()
        """Members that left and are expected to be replaced; unused if no heartbeats are held."""
        self._supporters: Counter[str] = Counter()
        """Number of members that support each assignor, so that a join need not examine all members."""

    # States

    def is_in(self, *states: GroupState) -> bool:
        """Return whether the group is in one of these states."""
        return self.state in states

    def transition_to(self, state: GroupState) -> None:
        """Change the state; the table of predecessors must allow it."""
        assert self.state in PREDECESSORS[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state

    @property
    def is_forgettable(self) -> bool:
        """Whether the group has no record, no offsets, no members and no pending member IDs."""
        return self.stored is None and not (self.offsets or self.members or self.pending)

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a new member; the first one determines the protocol type and becomes the leader."""
        assert member.member_id not in self.members
        if not self.members:
            self.protocol_type = protocol_type
        assert protocol_type == self.protocol_type
        if member.instance_id is not None:
            assert member.instance_id not in self.static_ids
            self.static_ids[member.instance_id] = member.member_id
        self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self._supporters.update(member.protocols.keys())
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member:
        """Remove a member; if it was the leader, the oldest remaining member replaces it."""
        member = self.members.pop(member_id)
        self._withdraw(member)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.rebalance.joining.pop(member_id, None)
        self.rebalance.syncing.pop(member_id, None)
        self.rebalance.notice.new_members_until = None  # its partitions wait until the others are notified
        return member

    def set_protocols(self, member: Member, protocols: Mapping[str, bytes]) -> None:
        """Replace the protocols that a member supports."""
        if protocols.keys() != member.protocols.keys():
            self._withdraw(member)
            self._supporters.update(protocols.keys())
        member.protocols = protocols

    def rename(self, member_id: str, new_id: str) -> Member:
        """Give a static member a new ID and keep its place in the order of members (KIP-345)."""
        old = self.members[member_id]
        new = replace(old, member_id=new_id, is_new=False)
        self.members = {m.member_id: m for m in (new if m is old else m for m in self.members.values())}
        if self.leader_id == member_id:
            self.leader_id = new_id
        assert old.instance_id is not None
        self.static_ids[old.instance_id] = new_id
        return new

    def restore(self, members: dict[str, Member]) -> None:
        """Replace all members with those of a record."""
        self.members = members
        self.static_ids = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
        self._supporters = Counter(name for member in members.values() for name in member.protocols)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Check that the member ID is known and, if an instance ID is given, belongs to it (KIP-345)."""
        if instance_id is not None:
            holder = self.static_ids.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _withdraw(self, member: Member) -> None:
        self._supporters.subtract(member.protocols.keys())
        for name in member.protocols:
            if not self._supporters[name]:
                del self._supporters[name]

    # The join phase

    @property
    def all_have_joined(self) -> bool:
        """Whether every member has joined. Pending member IDs count: their owners are about to join (KAFKA-7909)."""
        return len(self.rebalance.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> Millis:
        """How long a rebalance waits: the longest rebalance timeout of all members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Make a member that has joined the leader; return False if no member has joined."""
        joining = self.rebalance.joining
        if self.leader_id not in joining:
            joined = next((member_id for member_id in self.members if member_id in joining), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    @property
    def rejoined(self) -> Collection[str]:
        """Members that have joined in the current rebalance, and wait for the others."""
        return self.rebalance.joining.keys()

    @property
    def awaits_joins(self) -> bool:
        """Whether a rebalance is in its join phase: members are to rejoin."""
        return self.state is GroupState.PREPARING_REBALANCE

    @property
    def all_process(self) -> bool:
        """Whether no rebalance is in progress, and none is about to follow because members must give up partitions."""
        return self.state is GroupState.STABLE and self.rebalance.revoking_members is None

    @property
    def notice(self) -> RebalanceNotice:
        """The notification of the current rebalance."""
        return self.rebalance.notice

    @property
    def generation_at(self) -> Millis | None:
        """Time at which the last generation was written; None if there is none."""
        return None if self.stored is None else self.stored.current_state_timestamp

    # Votes

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Return whether a member with these protocols may join: it must share an assignor with all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._supporters[name] == len(self.members) for name in protocols)

    @property
    def common_protocols(self) -> frozenset[str]:
        """Assignors that all members support."""
        everybody = len(self.members)
        return frozenset(name for name, supporters in self._supporters.items() if supporters == everybody)

    def vote(self) -> str:
        """Return the assignor with the most votes among those that all members support; in a tie, the first."""
        candidates = self.common_protocols
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    @property
    def is_eager(self) -> bool:
        """Whether members give up all partitions when they learn of a rebalance."""
        return is_eager_assignor(self.protocol_type, self.protocol)

    @property
    def is_cooperative(self) -> bool:
        """Whether all members keep processing their partitions while the group rebalances (KIP-429)."""
        return are_cooperative(self.protocol_type, self._supporters)

    # Subscriptions

    def is_subscribed(self) -> Callable[[str], bool]:
        """Return a predicate for topics to which a member subscribes (KIP-496).

        If the subscriptions cannot be read, it holds for every topic of a group of consumers. Use one
        predicate for many topics, because making it decodes every subscription.
        """
        topics = self.subscribed_topics()
        if topics is not None:
            return topics.__contains__
        assumed = self.protocol_type == CONSUMER
        return lambda topic: assumed

    def subscribed_topics(self) -> set[str] | None:
        """Return the topics of all subscriptions; None if the group does not use the consumer protocol."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return set()
        if self.protocol is None:
            return None
        return subscribed_topics(member.protocols.get(self.protocol, b"") for member in self.members.values())
