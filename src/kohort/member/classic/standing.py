"""What a classic member knows of itself, and the few moves that all it does is made of.

The modules beside it each hold one matter of a member (joining, syncing, heartbeats, commits, leaving) as functions
over this state; `ClassicMember` says which of them an event concerns.
"""

from collections.abc import Mapping

from kohort.assignor import RebalanceProtocol
from kohort.errors import ErrorCode, KafkaError
from kohort.member.any_member import AnyMember
from kohort.member.callbacks import CallbackKind
from kohort.member.classic.leading import Lead
from kohort.member.classic.phases import BEFORE
from kohort.member.classic.requests import NO_GENERATION
from kohort.member.config import MemberConfig
from kohort.member.phase import Phase
from kohort.model import Millis, TopicPartition


class Standing(AnyMember):
    """The state of a classic member."""

    BEFORE = BEFORE
    config: MemberConfig

    def __init__(self, config: MemberConfig) -> None:
        super().__init__(config)
        self.phase_request: int | None = None
        """The JoinGroup, SyncGroup or LeaveGroup whose answer ends the phase."""
        self.id_request: int | None = None
        """While leaving: the JoinGroup whose answer brings a member id, which has to be given back."""
        self.heartbeat_request: int | None = None
        self.heartbeat_sent_at: Millis = 0
        self.assigned_at: Millis = 0
        """When the last assignment arrived."""
        self.joined_topics: frozenset[str] = frozenset()
        """The topics of the last JoinGroup."""
        self.rejoin: str | None = None
        """Why a stable member has to join once more."""
        self.protocol_name: str | None = None
        self.last_assignment: frozenset[TopicPartition] | None = None
        self.last_generation = NO_GENERATION
        """The generation of the last assignment that arrived. KAFKA-14639: not that of the last JoinGroup answer,
        whose assignment may have been lost while others got theirs."""
        self.lead: Lead | None = None
        self.counts: Mapping[str, int | None] = {}
        """The partition counts that the current assignment was computed from, where this member computed it."""
        self.near: Mapping[TopicPartition, frozenset[str]] | None = None
        """The racks that it was computed from, where this member watches them."""
        self.partitions: Mapping[str, int] = {}
        self.asked: frozenset[str] = frozenset()
        """The topics that `partitions` speaks of."""
        self.racks: Mapping[TopicPartition, frozenset[str]] = {}
        self.metadata_compared = False
        """Whether the current assignment was compared with what the cluster looks like now."""

    @property
    def protocol(self) -> RebalanceProtocol:
        """Cooperative only where every assignor that the member offers is."""
        cooperative = all(assignor.protocol is RebalanceProtocol.COOPERATIVE for assignor in self.config.assignors)
        return RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER

    @property
    def is_answered(self) -> bool:
        """Whether the member is stable in what the group made of its present subscription."""
        return self.phase is Phase.STABLE and self.topics == self.joined_topics

    # -- moves

    def enter(self, phase: Phase) -> None:
        """Go to another phase."""
        super().enter(phase)
        if phase is Phase.LEAVING:
            self.phase_request = None

    def prepare(self, reason: str) -> None:
        """Want to join. What an eager member owns, and what is no longer subscribed, is given up first."""
        self.reason = reason
        self.rejoin = None
        self.phase_request = None
        if self.phase is not Phase.PREPARING:
            self.enter(Phase.PREPARING)
        # An assignment and the wish for another can come at once: then what was won is given up again before the join.
        has = self.owned | self.callbacks.about_to_assign
        if self.protocol is RebalanceProtocol.EAGER:
            give_up = has
        else:
            give_up = frozenset(partition for partition in has if partition.topic not in self.topics)
        if give_up:
            self.callbacks.add(CallbackKind.REVOKE, give_up)

    def lose_generation(self, reason: str) -> None:
        """The group no longer counts this member: what it owns is lost, and it joins anew."""
        self.forget_generation(ErrorCode.ILLEGAL_GENERATION)
        self.callbacks.add(CallbackKind.LOST, self.owned)
        if self.phase is Phase.LEAVING:
            return
        because = reason + self.meanwhile()
        if self.phase is Phase.PREPARING:
            self.reason = because
        elif self.phase is not Phase.UNSUBSCRIBED:
            self.prepare(because)

    def forget_generation(self, code: ErrorCode) -> None:
        """Be nobody's member; commits that wait fail with `code`."""
        self.generation = None
        self.is_leader, self.lead, self.counts, self.near = False, None, {}, None
        self.last_generation = NO_GENERATION
        self.rejoin = None
        self.phase_request = None
        self.callbacks.forget_waiting()
        self.commits.drop_all(code)

    def fail(self, error: KafkaError) -> None:
        """Be out of the group until the application subscribes again."""
        self.actions.error = error
        self.forget_generation(error.code)
        self.member_id = ""
        if self.phase is Phase.UNSUBSCRIBED:
            return  # a simple consumer's coordinator cannot be found: its commits fail, nothing else ends
        self.callbacks.add(CallbackKind.LOST, self.owned)
        if self.phase is not Phase.LEAVING:
            self.enter(Phase.FATAL)
