"""The member of a classic group as a state machine: dispatch of events to the modules of this package."""

from typing import assert_never

from kohort.errors import ErrorCode, error_code
from kohort.member.classic.committing import commit_answered, commit_asked, send_commit_if_possible
from kohort.member.classic.heartbeats import heartbeat_answered, next_heartbeat_at, send_heartbeat_if_due
from kohort.member.classic.joining import callback_done, join_if_possible, joined, metadata_changed, rejoin_if_needed
from kohort.member.classic.leaving import (
    begin_leaving,
    id_received,
    leave_answered,
    leave_if_overdue,
    leave_if_possible,
    leave_rebalance_if_possible,
    must_send_leave,
    overdue_leave_ended,
    rejoin_if_stale,
    send_overdue_leave_if_possible,
)
from kohort.member.classic.phases import IN_REBALANCE
from kohort.member.classic.refusals import refused
from kohort.member.classic.state import ClassicState
from kohort.member.classic.syncing import assign_if_possible, synced, topics_to_watch
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
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.messages.heartbeat import HeartbeatResponse
from kohort.wire.messages.join_group import JoinGroupResponse
from kohort.wire.messages.leave_group import LeaveGroupResponse
from kohort.wire.messages.offset_commit import OffsetCommitResponse
from kohort.wire.messages.sync_group import SyncGroupResponse

_NEEDS_COORDINATOR = IN_REBALANCE | {Phase.PREPARING, Phase.STABLE, Phase.LEAVING}


class ClassicMember(ClassicState):
    """One member of one classic group."""

    def _take(self, event: Event) -> None:
        match event:
            case Subscribe(topics, expression):
                assert expression is None, "a classic group knows nothing of expressions"
                self._subscribe(topics)
            case Weigh():
                raise AssertionError("a classic group knows nothing of weights")
            case Rejoin(reason):
                # Every join reports what the assignor needs, so without a reason there is nothing to do.
                if reason is not None and self.generation is not None and self.phase is not Phase.PREPARING:
                    self.rejoin = reason
            case MetadataChanged():
                metadata_changed(self, event)
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
                rejoin_if_stale(self)
            case PollEnded():
                self.polls()
                rejoin_if_stale(self)
                self.polled_at = self.now
            case CallbackDone():
                callback_done(self, complete_callback(self))
            case CommitRequested():
                commit_asked(self, event)
            case TimerFired(timer):
                self._timer_fired(timer)
            case Leave():
                begin_leaving(self, event)
            case _:
                assert_never(event)

    def _subscribe(self, topics: frozenset[str]) -> None:
        self.topics = topics
        if self.phase in (Phase.UNSUBSCRIBED, Phase.FATAL):
            self.prepare("the member is new")

    # -- responses

    def _responded(self, request: int, response: Message) -> None:
        sent = self.requests.pop(request, None)
        if sent is None:
            return
        match response:
            case JoinGroupResponse():
                if self._ends(request, Phase.JOINING):
                    joined(self, response)
                elif request == self.id_request:
                    id_received(self, response)
            case SyncGroupResponse():
                if self._ends(request, Phase.SYNCING):
                    synced(self, response)
            case HeartbeatResponse():
                heartbeat_answered(self, request, sent, error_code(response.error_code))
            case OffsetCommitResponse():
                commit_answered(self, request, sent, response)
            case LeaveGroupResponse():
                if request == self.overdue_request:
                    overdue_leave_ended(self, error_code(response.error_code))
                elif self._ends(request, Phase.LEAVING):
                    leave_answered(self, response)
            case _:
                raise AssertionError(f"an answer to a question that no member asks: {response!r}")

    def _ends(self, request: int, phase: Phase) -> bool:
        return request == self.phase_request and self.phase is phase

    def _request_failed(self, request: int, code: ErrorCode) -> None:
        sent = self.requests.pop(request, None)
        if sent is None:
            return
        if request == self.overdue_request:
            overdue_leave_ended(self, code)
            return
        if request == self.heartbeat_request:
            self.heartbeat_request = None
        elif self.commits.unanswered(request):
            pass
        elif request == self.id_request:
            self.id_request = None
            return
        elif request == self.phase_request:
            self.phase_request = None
            if self.phase in IN_REBALANCE:
                self.prepare("the answer to the last join was lost")
        else:
            return
        refused(self, code)

    # -- what can be done now

    def _advance(self) -> None:
        leave_if_overdue(self)
        self.commits.expire(self.now)
        rejoin_if_needed(self)
        start_next_callback(self)
        leave_rebalance_if_possible(self)
        self._find_coordinator_if_wanted()
        send_overdue_leave_if_possible(self)
        send_commit_if_possible(self)
        match self.phase:
            case Phase.PREPARING:
                join_if_possible(self)
            case Phase.ASSIGNING:
                assign_if_possible(self)
            case Phase.LEAVING:
                leave_if_possible(self)
        send_heartbeat_if_due(self)

    def _wants_coordinator(self) -> bool:
        if self.commits.is_waiting or self.overdue_id:
            return True
        return must_send_leave(self) if self.phase is Phase.LEAVING else self.phase in _NEEDS_COORDINATOR

    def _topics_to_watch(self) -> frozenset[str]:
        return self.topics if self.lead is None else topics_to_watch(self, self.lead)

    def _next_heartbeat_at(self) -> Millis | None:
        return next_heartbeat_at(self)
