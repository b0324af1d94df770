"""What a classic member knows of itself, and the few moves that all it does is made of.

The modules beside it each hold one matter of a member (joining, syncing, heartbeats, commits, leaving) as functions
over this state; `ClassicMember` says which of them an event concerns.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kohort.assignor import RebalanceProtocol
from kohort.errors import ErrorCode, KafkaError
from kohort.member.actions import Actions, Send
from kohort.member.callbacks import NOTHING, CallbackKind, Callbacks
from kohort.member.commits import CommitQueue
from kohort.member.config import MemberConfig
from kohort.member.events import Leave
from kohort.member.leading import Lead
from kohort.member.link import CoordinatorLink
from kohort.member.phase import BEFORE, Phase
from kohort.member.requests import NO_GENERATION
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message


@dataclass(frozen=True, slots=True)
class Sent:
    """As whom a request was sent: an answer to who we no longer are says nothing of us."""

    member_id: str
    generation: int | None


class Standing:
    """The first seven attributes may be read by anybody; the rest is the member's own."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.phase = Phase.UNSUBSCRIBED
        self.member_id = ""
        self.generation: int | None = None
        """The generation in which requests are sent; None while the group does not count this member."""
        self.owned = NOTHING
        """What the application processes, or still gives up."""
        self.is_leader = False
        self.reason = ""
        """Why the member last began to join."""

        self.now: Millis = 0
        self.actions = Actions()
        self.callbacks = Callbacks()
        self.commits = CommitQueue()
        self.link = CoordinatorLink(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.requests: dict[int, Sent] = {}
        """What is out and not forgotten, by number."""
        self.phase_request: int | None = None
        """The JoinGroup, SyncGroup or LeaveGroup whose answer ends the phase."""
        self.id_request: int | None = None
        """While leaving: the JoinGroup whose answer brings a member id, which has to be given back."""
        self.heartbeat_request: int | None = None
        self.heartbeat_at: Millis = 0
        self.polled_at: Millis | None = None
        """When the application last went to work; None while it waits in a poll, or never polled."""

        self.topics: frozenset[str] = frozenset()
        self.joined_topics: frozenset[str] = frozenset()
        """The topics of the last JoinGroup."""
        self.rejoin: str | None = None
        """Why a stable member has to join once more."""
        self.leave: Leave | None = None
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
        self._last_request = 0

    @property
    def protocol(self) -> RebalanceProtocol:
        """Cooperative only where every assignor that the member offers is."""
        cooperative = all(assignor.protocol is RebalanceProtocol.COOPERATIVE for assignor in self.config.assignors)
        return RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER

    def speaks_of_us(self, sent: Sent) -> bool:
        """Whether an answer to that request concerns who we are now."""
        return (sent.member_id, sent.generation) == (self.member_id, self.generation)

    # -- moves

    def enter(self, phase: Phase) -> None:
        """Go to another phase."""
        assert self.phase in BEFORE[phase], f"{self.phase} -> {phase}"
        self.phase = phase
        if phase is Phase.LEAVING:
            self.phase_request = None

    def send(self, message: Message, timeout_ms: Millis | None = None) -> int:
        """Have it sent to the coordinator; the number of the request."""
        self._last_request += 1
        self.requests[self._last_request] = Sent(self.member_id, self.generation)
        self.actions.send.append(Send(self._last_request, message, timeout_ms))
        return self._last_request

    def prepare(self, reason: str) -> None:
        """Want to join. What an eager member owns, and what is no longer subscribed, is given up first."""
        self.reason = reason
        self.rejoin = None
        self.phase_request = None
        if self.phase is not Phase.PREPARING:
            self.enter(Phase.PREPARING)
        if self.protocol is RebalanceProtocol.EAGER:
            give_up = self.owned
        else:
            give_up = frozenset(partition for partition in self.owned if partition.topic not in self.topics)
        if give_up:
            self.callbacks.add(CallbackKind.REVOKE, give_up)

    def lose_generation(self, reason: str) -> None:
        """The group no longer counts this member: what it owns is lost, and it joins anew."""
        self.forget_generation(ErrorCode.ILLEGAL_GENERATION)
        self.callbacks.add(CallbackKind.LOST, NOTHING)
        if self.phase is Phase.LEAVING:
            return
        if self.phase is Phase.PREPARING:
            self.reason = reason
        elif self.phase is not Phase.UNSUBSCRIBED:
            self.prepare(reason)

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
        self.callbacks.add(CallbackKind.LOST, NOTHING)
        if self.phase is not Phase.LEAVING:
            self.enter(Phase.FATAL)
