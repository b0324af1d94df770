"""Driver of a member's state machine: its timers, requests and lookups in one event loop.

The owner runs the application's callbacks: `Membership` in a separate task, `Consumer` inside
`poll`.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from kohort.client.failures import ClosedError, CommitFailedError
from kohort.client.membership.committed import identified
from kohort.client.membership.coordinator_link import CoordinatorLink
from kohort.client.membership.group_metrics import GroupMetrics
from kohort.client.membership.join_notice import JoinNotice
from kohort.client.membership.stall_detector import StallDetector
from kohort.client.membership.timers import MemberTimers
from kohort.client.metrics import Sampling
from kohort.client.net import Cluster
from kohort.client.options import check_weight
from kohort.errors import ConfigError, KafkaError
from kohort.member import (
    Actions,
    AnyConfig,
    AnyMember,
    CallbackDone,
    CallbackKind,
    ClassicMember,
    CommitRequested,
    CommitSettled,
    ConsumerMember,
    ConsumerMemberConfig,
    Event,
    Leave,
    MemberConfig,
    MemberTimer,
    MetadataChanged,
    OffsetAndMetadata,
    Phase,
    Rejoin,
    Subscribe,
    TimerFired,
    Weigh,
)
from kohort.model import UUID, Millis, TopicPartition

_log = logging.getLogger(__name__)

OnCallback = Callable[[CallbackKind, frozenset[TopicPartition]], None]
OnChange = Callable[[], None]

_USUAL_SESSION_MS: Millis = 45_000
"""Assumed session timeout of a consumer group, in milliseconds; only the coordinator knows the actual one."""


class MemberDriver:
    """Driver of one member of one group.

    `on_callback` must return immediately; the owner calls `callback_done` later. `on_change` is
    called after every event that the member has handled.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: AnyConfig,
        on_callback: OnCallback,
        on_change: OnChange,
        metrics: GroupMetrics | None = None,
    ) -> None:
        self.member = _member(config)
        self.error: KafkaError | None = None
        """Error that permanently excludes the member from its group."""
        self.callback_runs = False
        """Whether `on_callback` was called and `callback_done` was not."""
        self._callback_since = 0.0
        self._callbacks_s = 0.0
        """Total duration of the application's callbacks, in seconds."""
        self._cluster = cluster
        self._loop = asyncio.get_running_loop()
        self._on_callback = on_callback
        self._on_change = on_change
        self.metrics = metrics or GroupMetrics(Sampling())
        self._link = CoordinatorLink(cluster, config.group_id, self.handle, self.metrics)
        self._timers = MemberTimers(self._loop, self._timer_fired)
        self._commits: dict[int, asyncio.Future[None]] = {}
        self._last_commit = 0
        self._changed: asyncio.Future[None] | None = None
        self._join_notice = JoinNotice(config.group_id) if isinstance(config, MemberConfig) else None
        self._stall_detector = StallDetector(_session_ms(config) / 3000, self._stalled)
        self._closed = False

    # -- operations

    def subscribe(self, topics: frozenset[str], expression: str | None = None) -> None:
        """Join for these topics, or replace the subscription.

        Under the consumer protocol, `expression` additionally subscribes to the topics that match
        it.
        """
        self.error = None
        self.handle(Subscribe(topics, expression))

    def weigh(self, weight: float) -> None:
        """Set the member's weight. Raises ConfigError for an invalid weight or in a classic group."""
        check_weight(weight)
        if not isinstance(self.member.config, ConsumerMemberConfig):
            raise ConfigError("only members with group_protocol consumer have weights.")
        self.handle(Weigh(weight))

    def rejoin(self, reason: str | None) -> None:
        """Request a new assignment for this reason; None only sends the assignors' current user data.

        Raises ConfigError if the broker computes the assignment.
        """
        config = self.member.config
        if isinstance(config, ConsumerMemberConfig) and not config.client_assignors:
            raise ConfigError(
                "the broker computes the assignment: only members with group_local_assignors can ask for a new one."
            )
        self.handle(Rejoin(reason))

    def callback_done(self, *, own: float = 0.0) -> None:
        """Report the end of the last callback.

        `own` is the part of its duration not due to the application, in seconds.
        """
        self._callbacks_s += self._loop.time() - self._callback_since - own
        self.handle(CallbackDone())

    def topic_id(self, topic: str) -> UUID | None:
        """Return the ID of the owned topic of this name; None if there is none, and in a classic group."""
        return self.member.ids.get(topic)

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout_ms: Millis) -> None:
        """Commit and wait for a durable response. Raises CommitFailedError."""
        if self._closed:
            raise ClosedError("the member is closed: it can no longer commit.")
        if not offsets:
            return
        self._last_commit += 1
        done: asyncio.Future[None] = self._loop.create_future()
        self._commits[self._last_commit] = done
        positions = identified(self._cluster, offsets, self.member.ids)
        self.handle(CommitRequested(self._last_commit, positions, self._timers.now() + timeout_ms))
        await done

    async def leave(self, reason: str, timeout_ms: Millis, *, for_good: bool = False) -> None:
        """Release all partitions (the callbacks run) and leave the group.

        The attempt to notify the coordinator ends after `timeout_ms`, not counting the time of
        callbacks.
        """
        began, before = self._loop.time(), self._callbacks_s
        self._callback_since = began  # if a callback waits for its poll, count it only from now on
        self.handle(Leave(reason, for_good=for_good))
        ends_at = began + timeout_ms / 1000
        while self.member.phase is not Phase.UNSUBSCRIBED:
            until = None if self.callback_runs else ends_at + self._callbacks_s - before
            try:
                async with asyncio.timeout_at(until):
                    await self._change()
            except TimeoutError:
                _log.warning(
                    "left the group, but the coordinator did not answer: group=%s member=%s",
                    self._group_id,
                    self.member.member_id,
                )
                return

    async def _change(self) -> None:
        self._changed = self._loop.create_future()
        await self._changed

    async def close(self) -> None:
        """Stop immediately without notifying the coordinator; call `leave` first to notify it."""
        self._closed = True
        self._cluster.unwatch(self)
        self._stall_detector.close()
        if self._join_notice is not None:
            self._join_notice.close()
        self._timers.close()
        await self._link.stop()
        for done in self._commits.values():
            if not done.done():
                done.set_exception(ClosedError("the member was closed before the commit was answered."))
                done.exception()  # the caller may be gone
        await self._link.close()

    # -- events in, actions out

    def handle(self, event: Event) -> None:
        """Pass an event to the member and carry out the resulting actions."""
        if self._closed:
            return
        member = self.member
        before = member.phase
        if isinstance(event, CallbackDone):
            self.callback_runs = False
        actions = member.handle(event, self._timers.now())
        if member.phase is not before:
            self.metrics.entered(member.phase, before, self._loop.time())
            _log.info(
                "group=%s member=%s generation=%s: %s -> %s (%s)",
                self._group_id,
                member.member_id,
                member.generation,
                before.value,
                member.phase.value,
                member.reason,
            )
            if self._join_notice is not None:
                self._join_notice.entered(member.phase)
        self._apply(actions)
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._on_change()

    def _apply(self, actions: Actions) -> None:
        for timer, at in actions.timers.items():
            self._timers.set(timer, at)
        if actions.find_coordinator:
            self._link.find()
        for send in actions.send:
            self._link.send(send)
        if actions.metadata is not None:
            self._cluster.watch(self, actions.metadata, self._metadata_changed, actions.topic_ids or frozenset())
        if actions.warning is not None:
            _log.warning("group=%s member=%s: %s", self._group_id, self.member.member_id, actions.warning)
        if actions.lost:
            because = f"which others may process by now: {self.member.reason}"
            _log.warning(
                "group=%s member=%s: lost %d partitions, %s",
                self._group_id,
                self.member.member_id,
                len(actions.lost),
                "whose topics were deleted" if actions.deleted else because,
            )
        if actions.error is not None:
            self.error = actions.error
            _log.error("group=%s: %s", self._group_id, actions.error)
        for settled in actions.settled:
            self._settle(settled)
        for kind, partitions in (
            (CallbackKind.REVOKE, actions.revoke),
            (CallbackKind.LOST, actions.lost),
            (CallbackKind.ASSIGN, actions.assign),
        ):
            if partitions is not None:
                self.callback_runs, self._callback_since = True, self._loop.time()
                self._on_callback(kind, partitions)

    def _settle(self, settled: CommitSettled) -> None:
        done = self._commits.pop(settled.commit)
        if done.done():
            return
        if settled.errors:
            done.set_exception(CommitFailedError(settled.errors))
        else:
            done.set_result(None)

    def _metadata_changed(self, partitions: Mapping[str, int], asked: frozenset[str]) -> None:
        metadata = self._cluster.metadata
        self.handle(MetadataChanged(partitions, asked, metadata.racks_of(partitions), metadata.names))

    def _timer_fired(self, timer: MemberTimer) -> None:
        self.handle(TimerFired(timer))

    def _stalled(self, seconds: float) -> None:
        _log.warning(
            "group=%s member=%s: the event loop stood still for %.1f s, and heartbeats with it; a session that ends"
            " meanwhile costs a rebalance: long work belongs into a thread (asyncio.to_thread)",
            self._group_id,
            self.member.member_id,
            seconds,
        )

    @property
    def _group_id(self) -> str:
        return self.member.config.group_id


def _member(config: AnyConfig) -> AnyMember:
    match config:
        case MemberConfig():
            return ClassicMember(config)
        case ConsumerMemberConfig():
            return ConsumerMember(config)
        case _:
            raise AssertionError(f"no member is made from {config!r}")


def _session_ms(config: AnyConfig) -> Millis:
    return config.session_timeout_ms if isinstance(config, MemberConfig) else _USUAL_SESSION_MS
