"""State of a classic member, and the transitions that its other modules share.

Each of the other modules handles one concern of a member (joining, syncing, heartbeats, commits,
leaving) as functions over this state. `ClassicMember` dispatches events to them.
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


class ClassicState(AnyMember):
    """State of a classic member."""

    BEFORE = BEFORE
    config: MemberConfig

    def __init__(self, config: MemberConfig) -> None:
        super().__init__(config)
        self.phase_request: int | None = None
        """The JoinGroup, SyncGroup or LeaveGroup whose answer ends the phase."""
        self.id_request: int | None = None
        """While leaving: the JoinGroup whose answer contains a member ID, which must be returned."""
        self.overdue_id = ""
        """The ID under which the member left because the application did not poll, until the coordinator knows that."""
        self.overdue_request: int | None = None
        """The LeaveGroup with that ID that is in flight."""
        self.heartbeat_request: int | None = None
        self.heartbeat_sent_at: Millis = 0
        self.assigned_at: Millis = 0
        """Time at which the last assignment arrived."""
        self.joined_topics: frozenset[str] = frozenset()
        """The topics of the last JoinGroup."""
        self.rejoin: str | None = None
        """Reason for which a stable member must rejoin."""
        self.protocol_name: str | None = None
        self.last_assignment: frozenset[TopicPartition] | None = None
        self.last_generation = NO_GENERATION
        """Generation of the last assignment that arrived. KAFKA-14639: not that of the last JoinGroup answer, whose
        assignment may have been lost while other members got theirs."""
        self.lead: Lead | None = None
        self.counts: Mapping[str, int | None] = {}
        """Partition counts from which this member computed the current assignment, if it did."""
        self.assigned_racks: Mapping[TopicPartition, frozenset[str]] | None = None
        """Racks from which this member computed the current assignment, if it watches them."""
        self.partitions: Mapping[str, int] = {}
        self.asked: frozenset[str] = frozenset()
        """The topics that `partitions` covers."""
        self.racks: Mapping[TopicPartition, frozenset[str]] = {}
        self.metadata_compared = False
        """Whether the current assignment was compared with the current metadata."""

    @property
    def protocol(self) -> RebalanceProtocol:
        """Cooperative if every assignor that the member offers is, else eager."""
        cooperative = all(assignor.protocol is RebalanceProtocol.COOPERATIVE for assignor in self.config.assignors)
        return RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER

    @property
    def is_answered(self) -> bool:
        """Whether the member is stable with an assignment that reflects its current subscription."""
        return self.phase is Phase.STABLE  # which it leaves as soon as it subscribes to other topics

    # -- transitions

    def enter(self, phase: Phase) -> None:
        """Enter another phase."""
        super().enter(phase)
        if phase is Phase.LEAVING:
            self.phase_request = None

    def prepare(self, reason: str) -> None:
        """Prepare to join. An eager member gives up all partitions first, any other those of unsubscribed topics."""
        self.reason = reason
        self.rejoin = None
        if self.phase is not Phase.PREPARING:
            self.enter(Phase.PREPARING)
        # A rejoin may be required while an assignment arrives: its partitions are then given up again before the join.
        has = self.owned | self.callbacks.about_to_assign
        if self.protocol is RebalanceProtocol.EAGER:
            give_up = has
        else:
            give_up = frozenset(partition for partition in has if partition.topic not in self.topics)
        if give_up:
            self.callbacks.add(CallbackKind.REVOKE, give_up)

    def lose_generation(self, reason: str) -> None:
        """Handle removal from the group: the member's partitions are lost, and it rejoins."""
        self.forget_generation(ErrorCode.ILLEGAL_GENERATION)
        self.callbacks.add(CallbackKind.LOST, self.owned)
        if self.phase is Phase.LEAVING:
            return
        because = reason + self.callback_note()
        if self.phase is Phase.PREPARING:
            self.reason = because
        elif self.phase is not Phase.UNSUBSCRIBED:
            self.prepare(because)

    def forget_generation(self, code: ErrorCode) -> None:
        """Leave the generation; waiting commits fail with `code`."""
        self.generation = None
        self.is_leader, self.lead, self.counts, self.assigned_racks = False, None, {}, None
        self.last_generation = NO_GENERATION
        self.phase_request = None
        self.callbacks.forget_waiting()
        self.commits.drop_all(code)

    def fail(self, error: KafkaError) -> None:
        """Fail: stay out of the group until the application subscribes again."""
        self.actions.error = error
        self.forget_generation(error.code)
        self.overdue_id = ""
        if error.code is not ErrorCode.GROUP_AUTHORIZATION_FAILED or self.phase is Phase.LEAVING:
            self.member_id = ""  # else the group waits for this ID if the application subscribes again
        if self.phase is Phase.UNSUBSCRIBED:
            return  # the coordinator of a simple consumer was not found: only its commits fail
        self.callbacks.add(CallbackKind.LOST, self.owned)
        # A look-up of the coordinator that began before the member failed may fail, too.
        if self.phase not in (Phase.LEAVING, Phase.FATAL):
            self.enter(Phase.FATAL)
