"""The member of a classic group as a state machine: events in, actions out, no clock and no I/O.

After each event `_advance` looks at the whole state and does what can be done now; so an event's own code only notes
what it changed, and a coordinator that moves, a callback that takes minutes and a commit that waits need no code that
knows of each other.
"""

from typing import assert_never

from kohort.errors import ErrorCode, error_code
from kohort.member.actions import Actions
from kohort.member.committing import commit_answered, commit_asked, send_commit_if_possible
from kohort.member.config import MemberConfig
from kohort.member.events import (
    CallbackDone,
    CommitAsked,
    CoordinatorFound,
    CoordinatorUnavailable,
    Event,
    Leave,
    MemberTimer,
    MetadataChanged,
    PollEnded,
    PollStarted,
    RequestFailed,
    Responded,
    Subscribe,
    TimerFired,
)
from kohort.member.heartbeats import heartbeat_answered, heartbeat_lost, next_heartbeat_at, send_heartbeat_if_due
from kohort.member.joining import join_if_possible, joined, rejoin_if_needed
from kohort.member.leaving import (
    begin_leaving,
    id_came,
    leave_answered,
    leave_if_overdue,
    leave_if_possible,
    must_say_goodbye,
    overdue_at,
    poll_started,
)
from kohort.member.phase import IN_REBALANCE, Phase
from kohort.member.refusals import refused
from kohort.member.standing import Standing
from kohort.member.syncing import assign_if_possible, synced, topics_to_watch
from kohort.member.telling import tell_next, told
from kohort.model import Millis
from kohort.wire.codec import Message
from kohort.wire.heartbeat import HeartbeatResponse
from kohort.wire.join_group import JoinGroupResponse
from kohort.wire.leave_group import LeaveGroupResponse
from kohort.wire.offset_commit import OffsetCommitResponse
from kohort.wire.sync_group import SyncGroupResponse

_NEEDS_COORDINATOR = IN_REBALANCE | {Phase.PREPARING, Phase.STABLE, Phase.LEAVING}


class ClassicMember(Standing):
    """One member of one group. `handle` is the only way in."""

    def __init__(self, config: MemberConfig) -> None:
        super().__init__(config)
        self._wanted: frozenset[str] = frozenset()
        self._armed: dict[MemberTimer, Millis] = {}

    def handle(self, event: Event, now: Millis) -> Actions:
        """Take one event and return what follows from it. Answers to forgotten requests are welcome and do nothing."""
        self.now = now
        self.actions = actions = Actions()
        self._take(event)
        while True:
            phase = self.phase
            self._advance()
            if self.phase is phase:
                break
        actions.settled += self.commits.settled()
        self._want_metadata()
        self._set_timers()
        return actions

    def _take(self, event: Event) -> None:
        match event:
            case Subscribe(topics):
                self._subscribe(topics)
            case MetadataChanged(partitions, asked, racks):
                self.partitions, self.asked, self.racks = partitions, asked, racks
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
                poll_started(self)
            case PollEnded():
                self.polled_at = self.now
            case CallbackDone():
                told(self)
            case CommitAsked():
                commit_asked(self, event)
            case TimerFired(timer):
                self._armed.pop(timer, None)
            case Leave():
                begin_leaving(self, event)
            case _:
                assert_never(event)

    def _subscribe(self, topics: frozenset[str]) -> None:
        assert topics, "to want nothing is to leave"
        self.topics = topics
        if self.phase in (Phase.UNSUBSCRIBED, Phase.FATAL):
            self.prepare("the member is new")

    # -- answers

    def _responded(self, request: int, response: Message) -> None:
        sent = self.requests.pop(request, None)
        if sent is None:
            return
        match response:
            case JoinGroupResponse():
                if self._ends(request, Phase.JOINING):
                    joined(self, response)
                elif request == self.id_request:
                    id_came(self, response)
            case SyncGroupResponse():
                if self._ends(request, Phase.SYNCING):
                    synced(self, response)
            case HeartbeatResponse():
                heartbeat_answered(self, request, sent, error_code(response.error_code))
            case OffsetCommitResponse():
                commit_answered(self, request, sent, response)
            case LeaveGroupResponse():
                if self._ends(request, Phase.LEAVING):
                    leave_answered(self, response)
            case _:
                raise AssertionError(f"an answer to a question that no member asks: {response!r}")

    def _ends(self, request: int, phase: Phase) -> bool:
        return request == self.phase_request and self.phase is phase

    def _request_failed(self, request: int, code: ErrorCode) -> None:
        sent = self.requests.pop(request, None)
        if sent is None:
            return
        if request == self.heartbeat_request:
            heartbeat_lost(self)
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
        tell_next(self)
        if self.link.must_be_found(self.now) and self._wants_coordinator():
            self.link.finding = self.actions.find_coordinator = True
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
        if self.commits.head is not None:
            return True
        return must_say_goodbye(self) if self.phase is Phase.LEAVING else self.phase in _NEEDS_COORDINATOR

    def _want_metadata(self) -> None:
        wanted = self.topics if self.lead is None else topics_to_watch(self, self.lead)
        if wanted != self._wanted:
            self._wanted = self.actions.metadata = wanted

    def _set_timers(self) -> None:
        retries = self.link.retry_at > self.now and self._wants_coordinator()
        wanted: dict[MemberTimer, Millis | None] = {
            MemberTimer.HEARTBEAT: next_heartbeat_at(self),
            MemberTimer.RETRY: self.link.retry_at if retries else None,
            MemberTimer.POLL: overdue_at(self),
            MemberTimer.COMMIT: self.commits.next_deadline(),
        }
        for timer, at in wanted.items():
            if at != self._armed.get(timer):
                self.actions.timers[timer] = at
        self._armed = {timer: at for timer, at in wanted.items() if at is not None}
