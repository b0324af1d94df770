"""Common base of the members of both protocols.

A member takes events and returns actions, without a clock or I/O. After each event, `_advance`
examines the whole state and does what can be done now. The code for an event only records what it
changed. So a coordinator that moves, a callback that takes minutes and a commit that waits need no code
that knows of the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from kohort.member.actions import Actions, Send
from kohort.member.callbacks import NOTHING, Callbacks
from kohort.member.commits import CommitQueue
from kohort.member.config import AnyConfig
from kohort.member.events import Event, Leave, MemberTimer
from kohort.member.link import CoordinatorLink
from kohort.member.phase import Phase
from kohort.model import UUID, Millis
from kohort.wire.codec import Message

Armed = tuple[Millis | None, Millis | None, Millis | None, Millis | None]
"""Times at which the member's timers fire, in the order of `MemberTimer`."""
_UNARMED: Armed = (None, None, None, None)


@dataclass(frozen=True, slots=True)
class Sent:
    """Identity under which a request was sent. An answer to an earlier identity does not concern the current one."""

    member_id: str
    generation: int | None


class AnyMember(ABC):
    """One member of one group. All input goes through `handle`; the first eight attributes may be read from outside."""

    BEFORE: ClassVar[Mapping[Phase, frozenset[Phase]]]
    """The phases from which each phase may be entered."""

    def __init__(self, config: AnyConfig) -> None:
        self.config = config
        self.phase = Phase.UNSUBSCRIBED
        self.member_id = ""
        self.generation: int | None = None
        """Generation (in a consumer group: member epoch) in which requests are sent; None if the member is not in the
        group."""
        self.owned = NOTHING
        """Partitions that the application processes or is still giving up."""
        self.ids: dict[str, UUID] = {}
        """IDs of the owned topics by name; empty in a classic group, which assigns names."""
        self.is_leader = False
        """Whether the member computes the group's assignment."""
        self.reason = ""
        """Reason for which the member last began to join."""

        self.now: Millis = 0
        self.actions = Actions()
        self.callbacks = Callbacks()
        self.commits = CommitQueue()
        self.link = CoordinatorLink(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self.requests: dict[int, Sent] = {}
        """Requests in flight by number, without those that were forgotten."""
        self.heartbeat_at: Millis = 0
        self.polled_at: Millis | None = None
        """Time at which the last poll ended; None while the application waits in a poll or has never polled."""
        self.callback_at: Millis | None = None
        """Time at which the current callback started, or of the last poll since; None if no callback runs."""
        self.topics: frozenset[str] = frozenset()
        """Topics to which the application subscribed by name."""
        self.leave: Leave | None = None
        """The event to leave; set while the member leaves."""
        self._last_request = 0
        self._armed = _UNARMED
        self._watched: frozenset[str] = frozenset()
        self._unresolved: frozenset[UUID] = frozenset()

    def handle(self, event: Event, now: Millis) -> Actions:
        """Process one event and return the resulting actions. Answers to forgotten requests are ignored."""
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

    @property
    @abstractmethod
    def is_answered(self) -> bool:
        """Whether the member is stable with an assignment that reflects its current subscription."""

    @abstractmethod
    def _take(self, event: Event) -> None:
        """Record the content of an event."""

    @abstractmethod
    def _advance(self) -> None:
        """Do what can be done now."""

    @abstractmethod
    def _topics_to_watch(self) -> frozenset[str]:
        """Return the topics whose partition counts are needed."""

    def _topics_to_resolve(self) -> frozenset[UUID]:
        """Return the IDs of topics that the coordinator named and that are not in the metadata."""
        return frozenset()

    @abstractmethod
    def _wants_coordinator(self) -> bool:
        """Return whether the member has something to send to the coordinator."""

    @abstractmethod
    def _next_heartbeat_at(self) -> Millis | None:
        """Return when the next heartbeat is due; None if none may be sent."""

    def overdue_at(self) -> Millis | None:
        """Return the deadline for the application's next poll, or the end of its callback; None if there is none."""
        polled, told = self.polled_at, self.callback_at
        since = told if polled is None else polled if told is None else min(polled, told)
        if since is None or self.leave is not None or self.phase not in self.BEFORE[Phase.STALE]:
            return None
        return since + self.config.max_poll_interval_ms

    def warn_overdue(self) -> None:
        """Add a warning that explains why the member leaves without a request by the application."""
        waited = f"max_poll_interval_ms ({self.config.max_poll_interval_ms} ms)"
        if self.polled_at is None and self.callbacks.running is not None:
            late = f"the {self.callbacks.running.kind.value} callback has taken longer than {waited}"
            instead = "do less in it, or allow more time"
        else:
            late = f"the application has not polled for {waited}"
            instead = "take fewer records at once (max_poll_records), or allow more time"
        self.actions.warning = f"{late}: the member leaves, and joins again when it is back; {instead}"

    def callback_note(self) -> str:
        """Return a note on the running callback, which may have taken too long, for the reason of a failure."""
        running = self.callbacks.running
        return "" if running is None else f" (while the {running.kind.value} callback runs)"

    def polls(self) -> None:
        """Record that the application polls."""
        self.polled_at = None
        if self.callback_at is not None:
            self.callback_at = self.now

    def is_current(self, sent: Sent) -> bool:
        """Return whether the request was sent under the member's current identity."""
        return (sent.member_id, sent.generation) == (self.member_id, self.generation)

    # -- transitions

    def enter(self, phase: Phase) -> None:
        """Enter another phase."""
        assert self.phase in self.BEFORE[phase], f"{self.phase} -> {phase}"
        self.phase = phase

    def send(self, message: Message, timeout_ms: Millis | None = None) -> int:
        """Queue a message for the coordinator; return the number of the request."""
        self._last_request += 1
        self.requests[self._last_request] = Sent(self.member_id, self.generation)
        self.actions.send.append(Send(self._last_request, message, timeout_ms))
        return self._last_request

    def _find_coordinator_if_wanted(self) -> None:
        if self.link.must_be_found(self.now) and self._wants_coordinator():
            self.link.finding = self.actions.find_coordinator = True

    def _want_metadata(self) -> None:
        topics, ids = self._topics_to_watch(), self._topics_to_resolve()
        if (topics, ids) != (self._watched, self._unresolved):
            self._watched = self.actions.metadata = topics
            self._unresolved = self.actions.topic_ids = ids

    def _set_timers(self) -> None:
        retries = self.link.retry_at > self.now and self._wants_coordinator()
        wanted: Armed = (
            self._next_heartbeat_at(),
            self.link.retry_at if retries else None,
            self.overdue_at(),
            self.commits.next_deadline(),
        )
        if wanted != self._armed:
            for timer, at, before in zip(MemberTimer, wanted, self._armed, strict=True):
                if at != before:
                    self.actions.timers[timer] = at
            self._armed = wanted

    def _timer_fired(self, timer: MemberTimer) -> None:
        heartbeat, retry, poll, commit = (
            None if other is timer else at for other, at in zip(MemberTimer, self._armed, strict=True)
        )
        self._armed = heartbeat, retry, poll, commit
