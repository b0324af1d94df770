"""State of a consumer group's member, and the transitions that its other modules share.

Each of the other modules handles one concern (heartbeats, reconciliation, commits, leaving) as
functions over this state. `ConsumerMember` dispatches events to them.
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
from kohort.wire.messages.consumer_group_heartbeat import Computed


class WantedTopics(NamedTuple):
    """Subscription of the application: topic names, an RE2 expression that matches topics, and a weight."""

    topics: frozenset[str] = frozenset()
    expression: str | None = None
    weight: float | None = None
    """Share relative to other members; 0 for no partitions, None to send no weight."""
    offers: int = 0
    """Number of changes of its assignors' user data that the application reported."""


class ConsumerState(AnyMember):
    """State of a consumer group's member. While `generation`, its member epoch, is None, it sends epoch 0."""

    BEFORE = BEFORE
    config: ConsumerMemberConfig

    def __init__(self, config: ConsumerMemberConfig) -> None:
        super().__init__(config)
        self.member_id = config.member_id
        self.expression: str | None = None
        self.weight = config.weight
        self.offers = 0
        self.asks_anew: str | None = None
        """Reason for which the next heartbeat requests a new target assignment; None if it requests none."""
        self.subscription_while_leaving = WantedTopics()
        """Subscription in force while the member leaves."""
        self.sent_expression = False
        """Whether the coordinator may have an expression of this member, which only an empty one removes."""

        self.heartbeats: set[int] = set()
        """Heartbeats in flight: one, or two if there was something to report while the first was held."""
        self.reports: set[int] = set()
        """Heartbeats in flight that report the owned partitions."""
        self.interval_ms: Millis = 0
        """Heartbeat interval that the coordinator last sent."""
        self.known_subscription: WantedTopics | None = None
        """Subscription that the coordinator knows; None if the next heartbeat must contain all fields."""
        self.subscription_request: int | None = None
        """Heartbeat in flight that reports it; None once it is answered."""
        self.may_be_member = False
        """Whether the coordinator may have this member in the group, perhaps by a heartbeat with a lost answer."""
        self.has_joined = False
        """Whether the coordinator has ever accepted this member."""
        self.lacks_topic_right = False
        """Whether the last heartbeat was rejected because the member may not describe a topic of its subscription."""
        self.leave_heartbeat: int | None = None
        """Heartbeat with which the member leaves."""
        self.computed: Computed | None = None
        """The group's target as computed by this member, for the next heartbeat."""
        self.polled_again = False
        """Whether the application of a stale member polled again."""

        self.target: Mapping[UUID, frozenset[int]] | None = None
        """Target assignment from the coordinator; None before the first."""
        self.names: Mapping[UUID, str] = {}
        """Names of the cluster's topics by ID, from the metadata."""
        self.owes_assign = False
        """Whether the last step of this target is open: an assign callback, even if with no partitions."""
        self.owes_acknowledgement = False
        """Whether the next heartbeat reports the owned partitions."""
        self.acknowledged = False
        """Whether a heartbeat has reported the owned partitions since this target arrived."""

    @property
    def is_answered(self) -> bool:
        """Whether the member is stable with an assignment that reflects its current subscription."""
        return (
            self.phase is Phase.STABLE
            and self.known_subscription == self.wanted_subscription
            and self.subscription_request is None
        )

    @property
    def wanted_subscription(self) -> WantedTopics:
        """The subscription that the coordinator should know."""
        return (
            self.subscription_while_leaving
            if self.leave is not None
            else WantedTopics(self.topics, self.expression, self.weight, self.offers)
        )

    def polls(self) -> None:
        """Record that the application polls, perhaps again."""
        super().polls()
        self.polled_again = self.phase is Phase.STALE

    # -- transitions

    def join(self, reason: str) -> None:
        """Ask to join, at epoch 0."""
        self.reason = reason
        self.polled_again = False
        self.heartbeat_at = self.now
        self.enter(Phase.JOINING)

    def fence(self, reason: str) -> None:
        """Handle removal from the group: the member's partitions are lost, and it rejoins."""
        self.forget_epoch(ErrorCode.FENCED_MEMBER_EPOCH)
        self.callbacks.add(CallbackKind.LOST, self.owned)
        if self.phase in IN_GROUP:
            self.reason = reason + self.callback_note()
            self.enter(Phase.FENCED)

    def forget_epoch(self, code: ErrorCode) -> None:
        """Leave the epoch; waiting commits fail with `code`, and answers in flight are ignored."""
        self.generation = None
        self.target = None
        self.known_subscription, self.may_be_member, self.computed = None, False, None
        self.heartbeats.clear()
        self.reports.clear()
        self.callbacks.forget_waiting()
        self.commits.drop_all(code)

    def fail(self, error: KafkaError) -> None:
        """Fail: stay out of the group until the application subscribes again."""
        self.actions.error = error
        self.forget_epoch(error.code)
        if self.phase is Phase.UNSUBSCRIBED:
            return  # the coordinator of a simple consumer was not found: only its commits fail
        self.callbacks.add(CallbackKind.LOST, self.owned)
        if self.phase in BEFORE[Phase.FATAL]:
            self.enter(Phase.FATAL)
