"""The member of a consumer group as a state machine: dispatch of events to the modules of this package."""

from typing import assert_never

from kohort.errors import ErrorCode, error_code
from kohort.member.consumer.committing import commit_answered, commit_asked, send_commit_if_possible
from kohort.member.consumer.heartbeats import (
    heartbeat_answered,
    heartbeat_failed,
    next_heartbeat_at,
    send_heartbeat_if_due,
)
from kohort.member.consumer.leaving import (
    begin_leaving,
    leave_answered,
    leave_if_overdue,
    leave_if_possible,
    rejoin_if_possible,
)
from kohort.member.consumer.phases import IN_GROUP
from kohort.member.consumer.reconciling import callback_done, reconcile, unresolved
from kohort.member.consumer.refusals import refused
from kohort.member.consumer.state import ConsumerState
from kohort.member.events import (
    CallbackDone,
    CommitRequested,
    CoordinatorFound,
    CoordinatorUnavailable,
    Event,
    Leave,
    MetadataChanged,
    PollEnded,
    PollStarted,
    Rejoin,
    RequestFailed,
    Responded,
    Subscribe,
    TimerFired,
    Weigh,
)
from kohort.member.phase import Phase
from kohort.member.running_callbacks import complete_callback, start_next_callback
from kohort.model import UUID, Millis
from kohort.wire.codec import Message
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse


class ConsumerMember(ConsumerState):
    """One member of one consumer group."""

    def _take(self, event: Event) -> None:
        match event:
            case Subscribe():
                self._subscribe(event)
            case Weigh(weight):
                self.weight = weight
            case Rejoin(reason):
                self.offers += 1
                self.asks_anew = reason
            case MetadataChanged():
                self.names = event.names
            case CoordinatorFound():
                self.link.found()
            case CoordinatorUnavailable(code):
                self.link.finding = False
                refused(self, code)
            case Responded(request, response):
                self._responded(request, response)
            case RequestFailed(request, code):
                self._request_failed(request, code)
            case PollStarted():
                self.polls()
            case PollEnded():
                self.polls()
                self.polled_at = self.now
            case CallbackDone():
                complete_callback(self)
                callback_done(self)
            case CommitRequested():
                commit_asked(self, event)
            case TimerFired(timer):
                self._timer_fired(timer)
            case Leave():
                begin_leaving(self, event)
            case _:
                assert_never(event)

    def _subscribe(self, wanted: Subscribe) -> None:
        self.topics, self.expression = wanted.topics, wanted.expression
        if self.phase in (Phase.UNSUBSCRIBED, Phase.FATAL):
            self.join("the member is new")

    # -- responses

    def _responded(self, request: int, response: Message) -> None:
        sent = self.requests.pop(request, None)
        if sent is None:
            return
        match response:
            case ConsumerGroupHeartbeatResponse() if request == self.leave_heartbeat:
                leave_answered(self, error_code(response.error_code))
            case ConsumerGroupHeartbeatResponse():
                heartbeat_answered(self, request, response)
            case OffsetCommitResponse():
                commit_answered(self, request, sent, response)
            case _:
                raise AssertionError(f"an answer to a question that no member asks: {response!r}")

    def _request_failed(self, request: int, code: ErrorCode) -> None:
        if self.requests.pop(request, None) is None:
            return
        if request == self.leave_heartbeat:
            leave_answered(self, code)
        elif request in self.heartbeats:
            heartbeat_failed(self, request, code)
        elif self.commits.unanswered(request):
            refused(self, code)

    # -- what can be done now

    def _advance(self) -> None:
        leave_if_overdue(self)
        self.commits.expire(self.now)
        reconcile(self)
        start_next_callback(self)
        rejoin_if_possible(self)
        self._find_coordinator_if_wanted()
        send_commit_if_possible(self)
        leave_if_possible(self)
        send_heartbeat_if_due(self)

    def _wants_coordinator(self) -> bool:
        return self.commits.is_waiting or self.phase in IN_GROUP or self.may_be_member

    def _topics_to_watch(self) -> frozenset[str]:
        return self.topics

    def _topics_to_resolve(self) -> frozenset[UUID]:
        return unresolved(self) if self.phase in (Phase.RECONCILING, Phase.ACKNOWLEDGING) else frozenset()

    def _next_heartbeat_at(self) -> Millis | None:
        return next_heartbeat_at(self)
