"""What a member of a consumer group knows of itself, and the few moves that all it does is made of.

The modules beside it each hold one matter (heartbeats, reconciliation, commits, leaving) as functions over this state;
`ConsumerMember` says which of them an event concerns.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kohort.errors import ErrorCode, KafkaError
from kohort.member.any_member import AnyMember
from kohort.member.callbacks import CallbackKind
from kohort.member.config import ConsumerMemberConfig
from kohort.member.consumer.phases import BEFORE, IN_GROUP
from kohort.member.phase import Phase
from kohort.model import UUID, Millis
from kohort.wire.consumer_group_heartbeat import Computed


class Wish(NamedTuple):
    """What the application wants: topics by name, all whose names match an RE2 expression, and how much of them."""

    topics: frozenset[str] = frozenset()
    expression: str | None = None
    weight: float | None = None
    """Beside other members; 0 for nothing, None to say nothing of it."""
    offers: int = 0
    """How often the application said that what its assignors tell has changed."""


class ConsumerStanding(AnyMember):
    """The state of a member of a consumer group. While `generation`, its member epoch, is None, it sends epoch 0."""

    BEFORE = BEFORE
    config: ConsumerMemberConfig

    def __init__(self, config: ConsumerMemberConfig) -> None:
        super().__init__(config)
        self.member_id = config.member_id
        self.expression: str | None = None
        self.weight = config.weight
        self.offers = 0
        self.asks_anew: str | None = None
        """Why the members of the group are to compute their target once more, for the next heartbeat."""
        self.staying_wish = Wish()
        """While the member leaves: what it is still subscribed to."""
        self.expressed = False
        """Whether the coordinator may hold an expression of this member, which only an empty one takes back."""

        self.heartbeats: set[int] = set()
        """Heartbeats whose answers count: one, or two where something had to be said while the first was held."""
        self.reports: set[int] = set()
        """Those of them that say what is owned."""
        self.interval_ms: Millis = 0
        """As the coordinator last said."""
        self.said: Wish | None = None
        """What the coordinator knows of the wish; None: a full heartbeat has to tell it all again."""
        self.saying: int | None = None
        """The heartbeat that told it, until that is answered."""
        self.may_be_counted = False
        """Whether the coordinator may count this member, if only by a heartbeat whose answer was lost."""
        self.goodbye: int | None = None
        """The heartbeat that leaves."""
        self.computed: Computed | None = None
        """The group's target as this member computed it, for the next heartbeat."""
        self.returned = False
        """Whether the application of a stale member polled again."""

        self.target: Mapping[UUID, frozenset[int]] | None = None
        """The assignment that the coordinator wants the member to have; None before it said."""
        self.names: Mapping[UUID, str] = {}
        """The topics of the cluster, as the metadata has them."""
        self.ids: dict[str, UUID] = {}
        """Of the owned topics."""
        self.owes_assign = False
        """The application has not been told of this target's end: what is new, or that nothing is."""
        self.owes_acknowledgement = False
        """The next heartbeat says what is owned."""
        self.acknowledged = False
        """Whether a heartbeat has said what is owned since this target came."""

    @property
    def is_answered(self) -> bool:
        """Whether the member is stable in what the group made of its present subscription."""
        return self.phase is Phase.STABLE and self.said == self.wish and self.saying is None

    @property
    def wish(self) -> Wish:
        """The subscription that the coordinator should know of."""
        return (
            self.staying_wish
            if self.leave is not None
            else Wish(self.topics, self.expression, self.weight, self.offers)
        )

    def polls(self) -> None:
        """The application is there, or back."""
        super().polls()
        self.returned = self.phase is Phase.STALE

    # -- moves

    def join(self, reason: str) -> None:
        """Ask to be let in, at epoch 0."""
        self.reason = reason
        self.returned = False
        self.heartbeat_at = self.now
        self.enter(Phase.JOINING)

    def fence(self, reason: str) -> None:
        """The group no longer counts this member: what it owns is lost, and it joins anew."""
        self.forget_epoch(ErrorCode.FENCED_MEMBER_EPOCH)
        self.callbacks.add(CallbackKind.LOST, self.owned)
        if self.phase in IN_GROUP:
            self.reason = reason + self.meanwhile()
            self.enter(Phase.FENCED)

    def forget_epoch(self, code: ErrorCode) -> None:
        """Be nobody's member; commits that wait fail with `code`, and answers that are on their way mean nothing."""
        self.generation = None
        self.target = None
        self.owes_assign = self.owes_acknowledgement = self.acknowledged = False
        self.said, self.may_be_counted, self.computed = None, False, None
        self.heartbeats.clear()
        self.reports.clear()
        self.saying = None
        self.callbacks.forget_waiting()
        self.commits.drop_all(code)

    def fail(self, error: KafkaError) -> None:
        """Be out of the group until the application subscribes again."""
        self.actions.error = error
        self.forget_epoch(error.code)
        if self.phase is Phase.UNSUBSCRIBED:
            return  # a simple consumer's coordinator cannot be found: its commits fail, nothing else ends
        self.callbacks.add(CallbackKind.LOST, self.owned)
        if self.phase in BEFORE[Phase.FATAL]:
            self.enter(Phase.FATAL)
