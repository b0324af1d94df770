"""The checks of a stream of events: each event goes to the rules of its kind."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kohort.model import Millis
from kohort.testing.events import (
    AnswerLost,
    AnswerSent,
    ConnectionClosed,
    ConnectionOpened,
    CoordinatorStarted,
    Event,
    GroupChanged,
    KitActed,
    RecordsAppended,
    RequestReceived,
)
from kohort.testing.invariants.classic_rules import ClassicRules
from kohort.testing.invariants.commit_rules import CommitRules
from kohort.testing.invariants.consumer_rules import ConsumerRules
from kohort.testing.invariants.fetch_rules import FetchRules
from kohort.testing.invariants.group_rules import GroupRules
from kohort.testing.invariants.limits import Limits
from kohort.testing.invariants.record_rules import RecordRules
from kohort.testing.invariants.refusals import Refusals
from kohort.testing.invariants.scene import Scene
from kohort.testing.invariants.state import Asked, Connection
from kohort.testing.invariants.topic_rules import TopicRules
from kohort.testing.invariants.violation import Invariant, Violation
from kohort.wire.codec import Message

OnRequest = Callable[[Asked], None]
OnAnswer = Callable[[Asked, Any, AnswerSent | AnswerLost], None]


class Checks:
    """Checks of what must always hold, for any client, over the events of one or several brokers of a cluster.

    The events must be those from the start of the brokers, in the order in which they happened. What a client cannot
    know, because its answer was lost, is not its fault.
    """

    def __init__(
        self, limits: Limits | None = None, *, allowed: Mapping[Invariant, Collection[str]] | None = None
    ) -> None:
        """Create the checks. `allowed` has the groups that may break an invariant; "*" is any group."""
        scene = self._scene = Scene(limits or Limits(), allowed or {})
        self._refusals = refusals = Refusals(scene)
        fetches = FetchRules(scene)
        self._groups = GroupRules(scene)
        rules = (
            ClassicRules(scene, refusals),
            ConsumerRules(scene, refusals),
            CommitRules(scene, refusals),
            fetches,
            TopicRules(scene),
        )
        self._requests: dict[type[Message], OnRequest] = {}
        self._answers: dict[type[Message], OnAnswer] = {}
        for rule in rules:
            self._requests.update(rule.requests)
            self._answers.update(rule.answers)
        records = RecordRules(scene)
        self._events: dict[type, Callable[[Any], None]] = {
            ConnectionOpened: self._opened,
            ConnectionClosed: lambda event: scene.closed(event.connection),
            RequestReceived: self._received,
            AnswerSent: self._answered,
            AnswerLost: self._answered,
            CoordinatorStarted: self._coordinator_started,
            RecordsAppended: records.appended,
            GroupChanged: self._groups.changed,
            KitActed: self._acted,
        }

    def observe(self, event: Event) -> Sequence[Violation]:
        """Check one event; return the violations that it reveals. Each is reported once."""
        scene = self._scene
        scene.number += 1
        if event.at > scene.now:
            scene.now = event.at
        self._events[type(event)](event)
        if not isinstance(event, KitActed):  # which may have advanced the time of the events after it
            self._groups.time_passed()
        return self._taken()

    def finish(self, at: Millis) -> Sequence[Violation]:
        """Check what should have happened by that time; return the violations that were not returned before."""
        self._scene.now = max(self._scene.now, at)
        self._groups.finish()
        return self._taken()

    @property
    def allowed(self) -> dict[Invariant, frozenset[str]]:
        """The groups that may break each invariant; "*" is any group."""
        return {invariant: frozenset(groups) for invariant, groups in self._scene.allowed.items()}

    def allow_only(self, allowed: Mapping[Invariant, Collection[str]]) -> None:
        """Replace what is allowed."""
        self._scene.allowed.clear()
        for invariant, groups in allowed.items():
            self._scene.allowed[invariant].update(groups)

    def allow(self, invariant: Invariant, *groups: str) -> None:
        """Report no more violations of this invariant by these groups, "*" for any."""
        self._scene.allowed[invariant].update(groups)

    def _taken(self) -> Sequence[Violation]:
        scene = self._scene
        if not scene.found:
            return ()
        found, scene.found = scene.found, []
        return found

    def _opened(self, event: ConnectionOpened) -> None:
        scene = self._scene
        scene.connections[event.connection] = Connection(
            event.connection, event.peer, is_whole=True, since=scene.number
        )

    def _received(self, event: RequestReceived) -> None:
        kind = type(event.request)
        if kind not in self._answers and kind not in self._requests:
            return
        scene = self._scene
        asked = Asked(event, scene.number)
        connection = scene.connection(event)
        connection.asked[event.request_id] = asked
        if connection.replaced:
            self._refusals.lives(connection, event)
        rule = self._requests.get(kind)
        if rule is not None:
            rule(asked)

    def _answered(self, event: AnswerSent | AnswerLost) -> None:
        connection = self._scene.connections.get(event.connection)
        asked = None if connection is None else connection.asked.pop(event.request_id, None)
        if asked is None or event.response is None:
            return
        rule = self._answers.get(type(asked.event.request))
        if rule is not None:
            rule(asked, event.response, event)

    def _coordinator_started(self, event: CoordinatorStarted) -> None:
        for group in self._scene.groups.values():
            if group.partition is None or group.partition == event.partition:
                group.coordinator_changed()

    def _acted(self, event: KitActed) -> None:
        scene = self._scene
        scene.acted_at, scene.acted = scene.now, scene.number
        for group_id in event.groups:
            scene.forget_group(group_id)
        for topic in event.topics:
            scene.forget_topic(topic)
        self._groups.kit_acted()
