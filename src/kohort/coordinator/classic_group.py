"""A classic group: its members, its state, its votes. Who may change what, and when, is in join, sync and leave."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from kohort.coordinator.effects import Record
from kohort.coordinator.member import Member
from kohort.coordinator.rebalance import Rebalance
from kohort.coordinator.states import PREDECESSORS, GroupState
from kohort.coordinator.subscriptions import CONSUMER, COOPERATIVE, subscribed_topics
from kohort.coordinator.succession import Succession
from kohort.errors import ErrorCode
from kohort.model import Millis
from kohort.wire.group_records import GroupMetadataValue


class ClassicGroup:
    """One group. `stored` and `offsets` are written by replay alone; the rest is rebuilt from them after a failover."""

    __slots__ = (
        "_supporters",
        "generation",
        "group_id",
        "last_members",
        "leader_id",
        "left_at",
        "members",
        "offsets",
        "peak",
        "peak_at",
        "pending",
        "protocol",
        "protocol_type",
        "rebalance",
        "since",
        "state",
        "static_ids",
        "stored",
        "succession",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.stored: GroupMetadataValue | None = None
        """The last generation that was written; None for a group that only has offsets, or whose first is under way."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        """The assignor that was voted for; None before the first vote and in an empty group."""
        self.leader_id: str | None = None
        self.since: Millis | None = None
        """When the group became empty; None for records older than KIP-211 and groups without one."""
        self.members: dict[str, Member] = {}
        self.static_ids: dict[str, str] = {}
        """Member id by instance id (KIP-345)."""
        self.pending: dict[str, None] = {}
        """Member ids handed out by a first join and not used yet (KIP-394), the oldest first."""
        self.rebalance = Rebalance()
        self.offsets: dict[str, dict[int, Record]] = {}
        """By topic and partition the record that was written last; the next commit there uses its key again."""
        self.last_members: Counter[str] = Counter()
        """How many members of each name the group had lately; see `returning`."""
        self.left_at: dict[str, Millis] = {}
        """When a generation ended last that had a member of that name."""
        self.peak = 0
        """How many members it had lately at most, whatever their names; see `returning`."""
        self.peak_at: Millis = 0
        """When a generation ended last that had so many."""
        self.succession = Succession()
        """Of members that leave to come back."""
        self._supporters: Counter[str] = Counter()
        """How many members support each assignor, so that a join need not ask them all."""

    # States

    def is_in(self, *states: GroupState) -> bool:
        """Whether the group stands in one of them."""
        return self.state in states

    def transition_to(self, state: GroupState) -> None:
        """Move on; only as the table of predecessors allows."""
        assert self.state in PREDECESSORS[state], f"{self.group_id}: {self.state} to {state}"
        self.state = state

    @property
    def is_forgettable(self) -> bool:
        """Nothing is known of it that is worth a name."""
        return self.stored is None and not (self.offsets or self.members or self.pending)

    # Members

    def add(self, member: Member, protocol_type: str) -> None:
        """Take in a new member; the first one decides the protocol type, and leads."""
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
        """Forget a member; the oldest of those left leads if it led."""
        member = self.members.pop(member_id)
        self._withdraw(member)
        if member.instance_id is not None:
            del self.static_ids[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.rebalance.joining.pop(member_id, None)
        self.rebalance.syncing.pop(member_id, None)
        self.rebalance.gathers_until = None  # what it had waits for the others
        return member

    def set_protocols(self, member: Member, protocols: Mapping[str, bytes]) -> None:
        """Take note of what a member supports from now on."""
        if protocols.keys() != member.protocols.keys():
            self._withdraw(member)
            self._supporters.update(protocols.keys())
        member.protocols = protocols

    def rename(self, member_id: str, new_id: str) -> Member:
        """Let a static member live on under a new id, in the same place (KIP-345)."""
        old = self.members[member_id]
        new = replace(old, member_id=new_id, is_new=False)
        self.members = {m.member_id: m for m in (new if m is old else m for m in self.members.values())}
        if self.leader_id == member_id:
            self.leader_id = new_id
        assert old.instance_id is not None
        self.static_ids[old.instance_id] = new_id
        return new

    def restore(self, members: dict[str, Member]) -> None:
        """Have exactly these members: what a record says."""
        self.members = members
        self.static_ids = {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
        self._supporters = Counter(name for member in members.values() for name in member.protocols)

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether the group knows that member, under that instance id if it gave one (KIP-345)."""
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
        """Nobody is missing. A member id that was handed out counts too: its owner is about to come (KAFKA-7909)."""
        return len(self.rebalance.joining) == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> Millis:
        """How long a rebalance waits: as long as the most patient member asks."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_leader(self) -> bool:
        """Make sure that the leader is one who has joined; False if nobody has."""
        joining = self.rebalance.joining
        if self.leader_id not in joining:
            joined = next((member_id for member_id in self.members if member_id in joining), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    # Votes

    def supports(self, protocol_type: str, protocols: Mapping[str, bytes]) -> bool:
        """Whether a member with these may join: one assignor in common with everybody who is there."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type and protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._supporters[name] == len(self.members) for name in protocols)

    @property
    def common_protocols(self) -> frozenset[str]:
        """The assignors that all members support."""
        everybody = len(self.members)
        return frozenset(name for name, supporters in self._supporters.items() if supporters == everybody)

    def vote(self) -> str:
        """The assignor that all members support and most prefer; of equals the one that was named first."""
        candidates = self.common_protocols
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    @property
    def is_cooperative(self) -> bool:
        """Whether all members go on with what they own while the group rebalances (KIP-429)."""
        return self.protocol_type == CONSUMER and COOPERATIVE.issuperset(self._supporters)

    # Subscriptions

    def is_subscribed(self) -> Callable[[str], bool]:
        """A test whether a member asks for a topic; assumed where the subscriptions cannot be read (KIP-496).

        Made once for many topics, since it reads what every member said.
        """
        topics = self.subscribed_topics()
        if topics is not None:
            return topics.__contains__
        assumed = self.protocol_type == CONSUMER
        return lambda topic: assumed

    def subscribed_topics(self) -> set[str] | None:
        """What all members together ask for; None where the group does not say it in the consumer protocol."""
        if self.protocol_type != CONSUMER:
            return None
        if not self.members:
            return set()
        if self.protocol is None:
            return None
        return subscribed_topics(member.protocols.get(self.protocol, b"") for member in self.members.values())
