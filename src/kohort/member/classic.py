"""The member of a classic group as a state machine: events in, actions out, no clock and no I/O.

After each event `_advance` looks at the whole state and does what can be done now; so an event's own code only notes
what it changed, and a coordinator that moves, a callback that takes minutes and a commit that waits need no code that
knows of each other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from kohort.assignor import Assignor, RebalanceProtocol
from kohort.errors import ErrorCode, KafkaError, error_code
from kohort.member.actions import Actions, Send
from kohort.member.callbacks import NOTHING, CallbackKind, Callbacks
from kohort.member.commits import CommitQueue, commit_request
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
from kohort.member.leading import assign, subscriptions_of, topics_of
from kohort.member.link import CoordinatorLink
from kohort.member.phase import BEFORE, IN_REBALANCE, Phase
from kohort.member.requests import (
    NO_GENERATION,
    PROTOCOL_TYPE,
    heartbeat_request,
    join_request,
    leave_request,
    sync_request,
)
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import DecodeError, Message
from kohort.wire.consumer_protocol import Subscription, decode_assignment
from kohort.wire.heartbeat import HeartbeatResponse
from kohort.wire.join_group import JoinGroupResponse
from kohort.wire.leave_group import LeaveGroupResponse
from kohort.wire.offset_commit import OffsetCommitResponse
from kohort.wire.sync_group import SyncGroupRequestAssignment, SyncGroupResponse

_JOIN_GRACE_MS = 5_000  # the answer to a JoinGroup may come as late as the rebalance timeout, and then travels

_COORDINATOR_GONE = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_RETRY_COMMIT = _COORDINATOR_GONE | {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
}
_ATTEMPTS_AT_UNKNOWN = 5
_MAY_HEARTBEAT = frozenset({Phase.STABLE, Phase.PREPARING, Phase.ASSIGNING, Phase.LEAVING})
_NEEDS_COORDINATOR = frozenset(
    {Phase.PREPARING, Phase.JOINING, Phase.ASSIGNING, Phase.SYNCING, Phase.STABLE, Phase.LEAVING}
)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request that is out, and as whom it was sent: an answer to who we no longer are says nothing of us."""

    kind: type[Message]
    member_id: str
    generation: int | None


@dataclass(frozen=True, slots=True)
class _Lead:
    """What the leader of a generation knows of its group."""

    assignor: Assignor
    subscriptions: Mapping[str, Subscription]
    instance_ids: Mapping[str, str | None]
    topics: frozenset[str]
    skip_assignment: bool


class ClassicMember:
    """One member of one group. `handle` is the only way in; what may be read of it are its plain attributes."""

    def __init__(self, config: MemberConfig) -> None:
        self.config = config
        self.phase = Phase.UNSUBSCRIBED
        self.member_id = ""
        self.generation: int | None = None
        """The generation in which requests are sent; None while the group does not count this member."""
        self.owned = NOTHING
        """What the application processes, or still gives up."""
        self.protocol_name: str | None = None
        self.is_leader = False
        self.reason = ""
        """Why the member last began to join."""

        cooperative = all(assignor.protocol is RebalanceProtocol.COOPERATIVE for assignor in config.assignors)
        self.protocol = RebalanceProtocol.COOPERATIVE if cooperative else RebalanceProtocol.EAGER

        self._now: Millis = 0
        self._actions = Actions()
        self._topics: frozenset[str] = frozenset()
        self._joined_topics: frozenset[str] = frozenset()
        self._rejoin: str | None = None
        self._leave: Leave | None = None

        self._callbacks = Callbacks()
        self._commits = CommitQueue()
        self._requests: dict[int, _Sent] = {}
        self._last_request = 0
        self._phase_request: int | None = None
        """The JoinGroup, SyncGroup or LeaveGroup whose answer ends the phase."""
        self._heartbeat_request: int | None = None
        self._heartbeat_at: Millis = 0

        self._link = CoordinatorLink(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._polled_at: Millis | None = None
        """When the application last went to work; None while it waits in a poll, or never polled."""

        self._last_assignment: frozenset[TopicPartition] | None = None
        self._last_generation = NO_GENERATION
        """The generation of the last assignment that arrived. KAFKA-14639: not that of the last JoinGroup answer,
        whose assignment may have been lost while others got theirs."""

        self._partitions: Mapping[str, int] = {}
        self._asked: frozenset[str] = frozenset()
        self._wanted: frozenset[str] = frozenset()
        self._lead: _Lead | None = None
        self._counts: Mapping[str, int | None] = {}
        """The partition counts that the current assignment was computed from, where this member computed it."""

        self._armed: dict[MemberTimer, Millis] = {}

    def handle(self, event: Event, now: Millis) -> Actions:
        """Take one event and return what follows from it. Answers to forgotten requests are welcome and do nothing."""
        self._now = now
        self._actions = actions = Actions()
        self._take(event)
        while True:
            phase = self.phase
            self._advance()
            if self.phase is phase:
                break
        actions.settled += self._commits.settled()
        self._want_metadata()
        self._set_timers()
        return actions

    # -- events

    def _take(self, event: Event) -> None:
        match event:
            case Subscribe(topics):
                self._subscribe(topics)
            case MetadataChanged(partitions, asked):
                self._partitions, self._asked = partitions, asked
            case CoordinatorFound():
                self._link.found()
            case CoordinatorUnavailable(code):
                self._link.finding = False
                self._refused(code)
            case Responded(request, response):
                self._responded(request, response)
            case RequestFailed(request, code):
                self._request_failed(request, code)
            case PollStarted():
                self._poll_started()
            case PollEnded():
                self._polled_at = self._now
            case CallbackDone():
                self._callback_done()
            case CommitAsked():
                self._commit_asked(event)
            case TimerFired(timer):
                self._armed.pop(timer, None)
            case Leave():
                self._begin_leaving(event)
            case _:
                assert_never(event)

    def _subscribe(self, topics: frozenset[str]) -> None:
        assert topics, "to want nothing is to leave"
        self._topics = topics
        if self.phase in (Phase.UNSUBSCRIBED, Phase.FATAL):
            self._prepare("the member is new")

    def _poll_started(self) -> None:
        self._polled_at = None
        if self.phase is Phase.OVERDUE:
            self._callbacks.add(CallbackKind.LOST, NOTHING)
            self._prepare("the application polls again after max.poll.interval.ms")

    def _callback_done(self) -> None:
        done = self._callbacks.done()
        if done.kind is not CallbackKind.REVOKE:
            return
        self.owned -= done.partitions
        self._commits.drop(done.partitions, ErrorCode.REBALANCE_IN_PROGRESS)
        if self.phase is Phase.STABLE:
            # KIP-429: what was given up has no owner until the group assigns once more.
            self._rejoin = f"gave up {len(done.partitions)} partitions that the assignment moves"

    def _commit_asked(self, asked: CommitAsked) -> None:
        self._commits.add(asked.commit, asked.offsets, asked.deadline_at)
        partitions = frozenset(asked.offsets)
        if self.phase in (Phase.OVERDUE, Phase.FATAL):
            self._commits.drop(partitions, ErrorCode.UNKNOWN_MEMBER_ID)
        elif self.phase is not Phase.UNSUBSCRIBED and self.generation is None:
            self._commits.drop(partitions, ErrorCode.ILLEGAL_GENERATION)
        elif self.phase in IN_REBALANCE:
            # What the member keeps can be committed when the rebalance is over; the rest is another's by then.
            self._commits.drop(partitions - self.owned, ErrorCode.REBALANCE_IN_PROGRESS)

    def _begin_leaving(self, event: Leave) -> None:
        self._topics = frozenset()
        if self.phase in (Phase.UNSUBSCRIBED, Phase.LEAVING):
            return
        self._leave = event
        self._callbacks.forget_waiting()
        self._callbacks.add(CallbackKind.LOST if self.generation is None else CallbackKind.REVOKE, self.owned)
        self._enter(Phase.LEAVING)

    # -- answers

    def _responded(self, request: int, response: Message) -> None:
        sent = self._requests.pop(request, None)
        if sent is None:
            return
        match response:
            case JoinGroupResponse():
                if request == self._phase_request and self.phase is Phase.JOINING:
                    self._joined(response)
            case SyncGroupResponse():
                if request == self._phase_request and self.phase is Phase.SYNCING:
                    self._synced(response)
            case HeartbeatResponse():
                self._heartbeat_answered(request, sent, error_code(response.error_code))
            case OffsetCommitResponse():
                self._commit_answered(request, sent, response)
            case LeaveGroupResponse():
                if request == self._phase_request and self.phase is Phase.LEAVING:
                    self._leave_answered(response)
            case _:
                raise AssertionError(f"an answer to a question that no member asks: {response!r}")

    def _request_failed(self, request: int, code: ErrorCode) -> None:
        sent = self._requests.pop(request, None)
        if sent is None:
            return
        if request == self._heartbeat_request:
            self._heartbeat_request = None
            self._heartbeat_at = self._now
        elif self._commits.unanswered(request):
            pass
        elif request == self._phase_request:
            self._phase_request = None
            if self.phase in IN_REBALANCE:
                self._prepare("the answer to the last join was lost")
        else:
            return
        self._refused(code)

    def _joined(self, response: JoinGroupResponse) -> None:
        self._phase_request = None
        code = error_code(response.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            # KIP-394: the first join only hands out an id, so a client whose answer was lost leaves no ghost member.
            self.member_id = response.member_id
            self._prepare(self.reason)
            return
        if code is not ErrorCode.NONE:
            self._prepare(self.reason)
            self._refused(code)
            return
        assignor = next((one for one in self.config.assignors if one.name == response.protocol_name), None)
        if assignor is None or response.protocol_type not in (None, "", PROTOCOL_TYPE):
            detail = f"the group chose the assignor {response.protocol_name!r}, which this member did not offer"
            self._fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
            return
        self._link.progressed(self._now)
        self.member_id, self.generation = response.member_id, response.generation_id
        self.protocol_name = assignor.name
        self.is_leader = response.leader == response.member_id
        self._lead = None
        if self.is_leader:
            self._take_lead(assignor, response)
        else:
            self._sync([])

    def _take_lead(self, assignor: Assignor, response: JoinGroupResponse) -> None:
        try:
            subscriptions = subscriptions_of(response.members)
        except DecodeError as problem:
            detail = f"a member's subscription is malformed: {problem}"
            self._fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
            return
        instance_ids = {member.member_id: member.group_instance_id for member in response.members}
        topics = topics_of(subscriptions) | self._topics
        self._lead = _Lead(assignor, subscriptions, instance_ids, topics, response.skip_assignment)
        self._heartbeat_at = self._now + self.config.heartbeat_interval_ms
        self._enter(Phase.ASSIGNING)

    def _synced(self, response: SyncGroupResponse) -> None:
        self._phase_request = None
        code = error_code(response.error_code)
        if code is not ErrorCode.NONE:
            # KAFKA-13891: the generation of the last assignment stays what it was, not the one that failed here.
            self._prepare("the group began to rebalance again before the assignment arrived")
            self._refused(code)
            return
        try:
            assignment = decode_assignment(response.assignment) if response.assignment else None
        except DecodeError as problem:
            detail = f"the assignment is malformed: {problem}"
            self._fail(KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, detail))
            return
        self._link.progressed(self._now)
        mine = frozenset(assignment.partitions) if assignment else NOTHING
        self._apply(frozenset(partition for partition in mine if partition.topic in self._joined_topics))

    def _apply(self, assigned: frozenset[TopicPartition]) -> None:
        assert self.generation is not None
        self._last_assignment, self._last_generation = assigned, self.generation
        if self.owned - assigned:
            self._callbacks.add(CallbackKind.REVOKE, self.owned - assigned)
        self._callbacks.add(CallbackKind.ASSIGN, assigned - self.owned)
        self._commits.rebalanced()
        # At once: a coordinator that holds heartbeats can tell only a member that has one in flight.
        self._heartbeat_at = self._now
        self._enter(Phase.STABLE)

    def _heartbeat_answered(self, request: int, sent: _Sent, code: ErrorCode) -> None:
        if request == self._heartbeat_request:
            self._heartbeat_request = None
        if code is ErrorCode.NONE:
            self._link.progressed(self._now)
        elif self._speaks_of_us(sent) and self.phase not in (Phase.JOINING, Phase.SYNCING):
            self._refused(code)

    def _commit_answered(self, request: int, sent: _Sent, response: OffsetCommitResponse) -> None:
        errors = self._commits.answered(request, response)
        if not errors:
            self._link.progressed(self._now)
            return
        commit = self._commits.head
        assert commit is not None
        again: set[ErrorCode] = set()
        for partition, code in errors.items():
            if self._may_commit_again(sent, code, commit.attempts):
                again.add(code)
                commit.waits_for_rebalance |= code is ErrorCode.REBALANCE_IN_PROGRESS
            else:
                commit.fail((partition,), code)
        for code in sorted(again | (set(errors.values()) & _GROUP_ERRORS)):
            if code in _RETRY_COMMIT and code not in _COORDINATOR_GONE:
                self._link.back_off(self._now)
            elif code in _COORDINATOR_GONE or self._speaks_of_us(sent):
                self._refused(code)

    def _may_commit_again(self, sent: _Sent, code: ErrorCode, attempts: int) -> bool:
        if code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            # A broker that just started may not know the topic yet; one that was deleted must not hold up a rebalance.
            return attempts < _ATTEMPTS_AT_UNKNOWN
        if code in _RETRY_COMMIT:
            return True
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            # A callback waits for this commit, and the rebalance for the callback.
            return self._callbacks.only_assigning
        # KAFKA-8104: refused as who we were; what we still own can be committed as who we are.
        return code in _GROUP_ERRORS and self.generation is not None and not self._speaks_of_us(sent)

    def _leave_answered(self, response: LeaveGroupResponse) -> None:
        self._phase_request = None
        code = error_code(response.error_code)
        if code in _COORDINATOR_GONE or code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            self._refused(code)
        else:
            # Whatever else it says (unknown, fenced): the group does not count us.
            self._left()

    def _speaks_of_us(self, sent: _Sent) -> bool:
        return (sent.member_id, sent.generation) == (self.member_id, self.generation)

    # -- what errors do

    def _refused(self, code: ErrorCode) -> None:
        match code:
            case ErrorCode.REBALANCE_IN_PROGRESS if self.phase is Phase.ASSIGNING:
                self._prepare("another rebalance began before the assignment was computed")
            case ErrorCode.REBALANCE_IN_PROGRESS if self.phase is Phase.STABLE:
                self._rejoin = "the group is rebalancing"
            case ErrorCode.REBALANCE_IN_PROGRESS:
                pass
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose_generation("the coordinator is at another generation")
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
                self._lose_generation("the coordinator does not know the member")
            case _ if code in _COORDINATOR_GONE:
                self._link.known = False
                self._heartbeat_at = self._now  # the session may be nearly over when the next one is found
                self._link.back_off(self._now)
            case _ if code.retriable:
                self._link.back_off(self._now)
            case _:
                self._fail(KafkaError(code))

    def _lose_generation(self, reason: str) -> None:
        self._forget_generation(ErrorCode.ILLEGAL_GENERATION)
        self._callbacks.add(CallbackKind.LOST, NOTHING)
        if self.phase is Phase.LEAVING:
            return
        if self.phase is Phase.PREPARING:
            self.reason = reason
        elif self.phase is not Phase.UNSUBSCRIBED:
            self._prepare(reason)

    def _forget_generation(self, code: ErrorCode) -> None:
        self.generation = None
        self.is_leader, self._lead, self._counts = False, None, {}
        self._last_generation = NO_GENERATION
        self._rejoin = None
        self._phase_request = None
        self._callbacks.forget_waiting()
        self._commits.drop_all(code)

    def _fail(self, error: KafkaError) -> None:
        self._actions.error = error
        self._forget_generation(error.code)
        self.member_id = ""
        if self.phase is Phase.UNSUBSCRIBED:
            return  # a simple consumer's coordinator cannot be found: its commits fail, nothing else ends
        self._callbacks.add(CallbackKind.LOST, NOTHING)
        if self.phase is not Phase.LEAVING:
            self._enter(Phase.FATAL)

    # -- what can be done now

    def _advance(self) -> None:
        self._leave_if_overdue()
        self._commits.expire(self._now)
        self._rejoin_if_needed()
        self._give_callback()
        self._find_coordinator_if_needed()
        self._send_commit()
        match self.phase:
            case Phase.PREPARING:
                self._join_if_possible()
            case Phase.ASSIGNING:
                self._assign_if_possible()
            case Phase.LEAVING:
                self._leave_if_possible()
        self._send_heartbeat()

    def _leave_if_overdue(self) -> None:
        if self._polled_at is None or self.phase not in BEFORE[Phase.OVERDUE]:
            return
        if self._now < self._polled_at + self.config.max_poll_interval_ms:
            return
        if self.member_id and self._link.known and not self.config.is_static:
            # The others need not wait for a member that is stuck; whether it was heard, nobody waits to know.
            self._send(leave_request(self.config, self.member_id, "max.poll.interval.ms is over"))
        self._forget_generation(ErrorCode.UNKNOWN_MEMBER_ID)
        self.member_id = ""
        self._enter(Phase.OVERDUE)

    def _rejoin_if_needed(self) -> None:
        if self.phase is not Phase.STABLE:
            return
        if self._rejoin is not None:
            self._prepare(self._rejoin)
        elif self._topics != self._joined_topics:
            self._prepare("the subscription changed")
        elif self._counts and self._counts.keys() <= self._asked:
            changed = sorted(topic for topic, count in self._counts.items() if self._partitions.get(topic) != count)
            if changed:
                self._prepare(f"the number of partitions changed: {', '.join(changed)}")

    def _prepare(self, reason: str) -> None:
        """Want to join. What an eager member owns, and what is no longer subscribed, is given up first."""
        self.reason = reason
        self._rejoin = None
        self._phase_request = None
        if self.phase is not Phase.PREPARING:
            self._enter(Phase.PREPARING)
        if self.protocol is RebalanceProtocol.EAGER:
            give_up = self.owned
        else:
            give_up = frozenset(partition for partition in self.owned if partition.topic not in self._topics)
        if give_up:
            self._callbacks.add(CallbackKind.REVOKE, give_up)

    def _give_callback(self) -> None:
        while (callback := self._callbacks.start_next()) is not None:
            match callback.kind:
                case CallbackKind.REVOKE:
                    partitions = callback.partitions & self.owned
                    self._actions.revoke = partitions or None
                case CallbackKind.LOST:
                    partitions = self.owned
                    self.owned = NOTHING
                    self._commits.drop(partitions, ErrorCode.ILLEGAL_GENERATION)
                    self._actions.lost = partitions or None
                case CallbackKind.ASSIGN:
                    self.owned |= callback.partitions
                    self._actions.assign = callback.partitions
                    return
                case _:
                    assert_never(callback.kind)
            if partitions:
                return
            self._callbacks.done()

    def _find_coordinator_if_needed(self) -> None:
        if self._link.must_be_found(self._now) and self._wants_coordinator():
            self._link.finding = self._actions.find_coordinator = True

    def _wants_coordinator(self) -> bool:
        if self.phase is Phase.LEAVING:
            return self._must_say_goodbye() or self._commits.head is not None
        return self.phase in _NEEDS_COORDINATOR or self._commits.head is not None

    def _join_if_possible(self) -> None:
        eager = self.protocol is RebalanceProtocol.EAGER
        free = self._callbacks.idle if eager else self._callbacks.only_assigning
        if not free or not self._link.ready(self._now) or self._commits.blocks_rejoining:
            return
        request = join_request(
            self.config,
            self.member_id,
            self._topics,
            owned=self.owned,
            last=self._last_assignment,
            generation=self._last_generation,
            reason=self.reason,
        )
        self._commits.drop(self._commits.partitions - self.owned, ErrorCode.REBALANCE_IN_PROGRESS)
        self._joined_topics = self._topics
        self._phase_request = self._send(request, self.config.max_poll_interval_ms + _JOIN_GRACE_MS)
        self._enter(Phase.JOINING)

    def _assign_if_possible(self) -> None:
        lead = self._lead
        assert lead is not None
        if not lead.topics <= self._asked or not self._link.ready(self._now):
            return
        counts = {topic: self._partitions.get(topic) for topic in lead.topics}
        if lead.skip_assignment:
            # KIP-814: a static leader came back, the group keeps its assignment; the leader still watches the topics.
            shares: list[SyncGroupRequestAssignment] = []
        else:
            known = {topic: count for topic, count in counts.items() if count is not None}
            shares = assign(lead.assignor, known, lead.subscriptions, lead.instance_ids)
        self._counts = counts
        self._sync(shares)

    def _sync(self, shares: list[SyncGroupRequestAssignment]) -> None:
        assert self.generation is not None and self.protocol_name is not None
        if not self.is_leader:
            self._counts = {}
        request = sync_request(self.config, self.member_id, self.generation, self.protocol_name, shares)
        self._phase_request = self._send(request, self.config.max_poll_interval_ms + _JOIN_GRACE_MS)
        self._enter(Phase.SYNCING)

    def _must_say_goodbye(self) -> bool:
        assert self._leave is not None
        return bool(self.member_id) and (not self.config.is_static or self._leave.for_good)

    def _leave_if_possible(self) -> None:
        assert self._leave is not None
        if not self._callbacks.idle or self._commits.blocks_rejoining or self._phase_request is not None:
            return
        if not self._must_say_goodbye():
            self._left()
        elif self._link.ready(self._now):
            self._commits.drop_all(ErrorCode.UNKNOWN_MEMBER_ID)
            request = leave_request(self.config, self.member_id, self._leave.reason)
            self._phase_request = self._send(request)

    def _left(self) -> None:
        self._forget_generation(ErrorCode.UNKNOWN_MEMBER_ID)
        self.member_id = ""
        self._last_assignment, self._last_generation = None, NO_GENERATION
        self._leave, self._polled_at = None, None
        self._enter(Phase.UNSUBSCRIBED)
        if self._topics:
            self._prepare("the member is new")

    def _send_commit(self) -> None:
        self._actions.settled += self._commits.settled()
        commit = self._commits.head
        if commit is None or not commit.offsets or self._commits.sent is not None or not self._link.ready(self._now):
            return
        if self.phase in IN_REBALANCE or (commit.waits_for_rebalance and self.phase is not Phase.STABLE):
            return
        if self.phase is Phase.LEAVING and self._phase_request is not None:
            return
        config = self.config
        assert self.generation is not None or self.phase is Phase.UNSUBSCRIBED
        request = commit_request(commit, config.group_id, self.member_id, self.generation, config.instance_id)
        self._commits.sent_with(self._send(request))

    def _send_heartbeat(self) -> None:
        if not self._heartbeats() or not self._link.ready(self._now) or self._now < self._heartbeat_at:
            return
        assert self.generation is not None
        request = heartbeat_request(self.config, self.member_id, self.generation)
        # Without an answer for that long the coordinator has given the member up; better to ask another broker.
        self._heartbeat_request = self._send(request, self.config.session_timeout_ms)
        self._heartbeat_at = self._now + self.config.heartbeat_interval_ms

    def _heartbeats(self) -> bool:
        return (
            self.generation is not None
            and self._heartbeat_request is None
            and self._phase_request is None
            and self.phase in _MAY_HEARTBEAT
        )

    # -- bookkeeping

    def _enter(self, phase: Phase) -> None:
        assert self.phase in BEFORE[phase], f"{self.phase} -> {phase}"
        self.phase = phase
        if phase is Phase.LEAVING:
            self._phase_request = None

    def _send(self, message: Message, timeout_ms: Millis | None = None) -> int:
        self._last_request += 1
        self._requests[self._last_request] = _Sent(type(message), self.member_id, self.generation)
        self._actions.send.append(Send(self._last_request, message, timeout_ms))
        return self._last_request

    def _want_metadata(self) -> None:
        wanted = self._topics if self._lead is None else self._topics | self._lead.topics
        if wanted != self._wanted:
            self._wanted = self._actions.metadata = wanted

    def _set_timers(self) -> None:
        wanted: dict[MemberTimer, Millis] = {}
        if self._heartbeats() and self._link.known:
            wanted[MemberTimer.HEARTBEAT] = max(self._heartbeat_at, self._link.retry_at)
        if self._link.retry_at > self._now and self._wants_coordinator():
            wanted[MemberTimer.RETRY] = self._link.retry_at
        if self._polled_at is not None and self.phase in BEFORE[Phase.OVERDUE]:
            wanted[MemberTimer.POLL] = self._polled_at + self.config.max_poll_interval_ms
        deadline = self._commits.next_deadline()
        if deadline is not None:
            wanted[MemberTimer.COMMIT] = deadline
        for timer in MemberTimer:
            at = wanted.get(timer)
            if at != self._armed.get(timer):
                self._actions.timers[timer] = at
        self._armed = wanted


_GROUP_ERRORS = frozenset(
    {
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""What a commit's refusal says of the member rather than of the commit."""
