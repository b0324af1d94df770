"""One shard of the group coordinator and its partition of `__consumer_offsets`.

Effects are always applied in one order: append the records, replay them, set the timers, and answer once the append
is on disk. An answer that follows an append of the same shard waits for it too, so that no client reads what a crash
could undo. The exception is an answer without news for the member, for which the Java client may wait in a busy loop.
If an append fails, the shard is discarded and loaded again from the contents of the log.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence, Set
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Protocol, cast

from kohort.broker.clock import Clock
from kohort.broker.groups.error_answers import refusal
from kohort.broker.groups.group_contents import GroupContents
from kohort.broker.groups.journal import BrokerJournal
from kohort.broker.groups.log_shard import LogShard, LogShardParts, unexpected_timer
from kohort.coordinator import (
    ClassicGroup,
    ConsumerGroup,
    Effects,
    Group,
    GroupRecord,
    GroupShard,
    HeldHeartbeat,
    HeldHeartbeatsDue,
    MetadataImage,
    PartitionExtent,
    RequestContext,
    Timer,
    WaitingRequest,
    has_no_news,
)
from kohort.errors import ErrorCode
from kohort.group_events import OffsetsHeldUp, TargetRefused
from kohort.log import CoordinatorFenced, Fenced, PartitionStopped, Producer
from kohort.log.cluster import OFFSETS_TOPIC
from kohort.model import Millis
from kohort.printable import printable
from kohort.wire.batches import Marker, encode_batch, encode_marker
from kohort.wire.batches import Record as BatchRecord
from kohort.wire.codec import Message
from kohort.wire.group_log import encode_records, pack_records
from kohort.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from kohort.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


class Dependencies(LogShardParts, Protocol):
    """The parts of the broker that this module uses."""

    clock: Clock
    journal: BrokerJournal

    def new_group_shard(self, partition: int) -> GroupShard: ...


log = logging.getLogger("kohort.broker")

_WITHOUT_NEWS = HeartbeatResponse()
_SLICES_PER_TURN = 64
"""Number of calls of `GroupShard.answer_news` before other requests have their turn."""


class Waiter(Protocol):
    """The coordinator's token for a request: a `Call`, or an object that adds to the answer before passing it on."""

    request: Message
    version: int

    def reply(self, response: Message, /) -> None:
        """Send the answer."""


class Shard(LogShard):
    """The shell around one `GroupShard`."""

    topic = OFFSETS_TOPIC
    _machine: GroupShard  # set by `lead`

    def __init__(self, broker: Dependencies, partition: int) -> None:
        super().__init__(broker, partition)
        self._broker = broker
        self._deleted_meanwhile: dict[str, None] = {}
        self._holds_end_at: Millis | None = None
        """When the timer `HeldHeartbeatsDue` fires."""
        self._continues_next_turn = False
        """Whether the remaining news is sent to members in the next turn of the event loop."""
        self._rate = broker.clock.rate
        self._ready_since: Millis = 0
        """Time at which this broker last became the coordinator of the shard's groups."""

    # Requests

    def handle(self, request: Message, waiter: Waiter, context: RequestContext) -> None:
        """Pass one request to the coordinator; `waiter` gets the answer now, after a sync, or much later."""
        if not self.ready:
            waiter.reply(refusal(request, waiter.version, self._unready))
            return
        now = self._broker.now()
        if not self._rate:
            context = replace(context, may_hold=False)
        self._apply(self._machine.handle(request, context, now), now)

    def heartbeat(self, request: HeartbeatRequest, waiter: Waiter, token: Hashable | None) -> None:
        """Handle a Heartbeat, the most frequent request: its only effect is an answer; with a token it may be held."""
        if not self.ready:
            # As in Kafka: while a group loads, its members are unknown; afterwards each has a full session timeout.
            code = ErrorCode.NONE if self._serves else self._unready
            waiter.reply(HeartbeatResponse(error_code=code))
            return
        answer = self._machine.heartbeat(request, self._broker.now(), token if self._rate else None)
        if isinstance(answer, HeldHeartbeat):
            self._held()
        else:
            self._answer(waiter, _WITHOUT_NEWS if answer is ErrorCode.NONE else HeartbeatResponse(error_code=answer))

    def quiet_heartbeat(self, request: ConsumerGroupHeartbeatRequest, waiter: Waiter, token: Hashable | None) -> bool:
        """Answer a consumer group heartbeat that carries no change and gets no news; with a token, it may be held.

        Return False if `handle` must take the request.
        """
        if not self.ready:
            return False
        answer = self._machine.quiet_heartbeat(request, self._broker.now(), token if self._rate else None)
        if isinstance(answer, HeldHeartbeat):
            self._held()
        elif answer is not None:
            self._answer(waiter, answer)
        return answer is not None

    def _held(self) -> None:
        """Update the timer after a heartbeat was held without Effects, and send news that waited for this heartbeat."""
        at = self._machine.holds_end_at
        assert at is not None, "a heartbeat is held"
        if self._holds_end_at is None or at < self._holds_end_at:
            self._set_timer(HeldHeartbeatsDue(), at)
        self._answer_news()

    def release(self, token: Hashable, behind: WaitingRequest) -> None:
        """Tell the coordinator that a request waits behind one that may be a held heartbeat."""
        if self.ready:
            now = self._broker.now()
            self._apply(self._machine.release(token, behind, now), now)

    @property
    def waiting(self) -> Collection[Hashable]:
        """The requests that the coordinator has parked or holds."""
        return {*self._machine.parked, *(held.token for held in self._machine.held)} if self.ready else ()

    def abandoned(self, token: Hashable) -> None:
        """Tell the coordinator that the connection of a parked request was closed."""
        if self.ready:
            now = self._broker.now()
            self._apply(self._machine.disconnected(token, now), now)

    def group(self, group_id: str) -> ClassicGroup | ConsumerGroup | None:
        """Return a group, for inspection; None if it does not exist, or this shard is not ready."""
        return self._machine.group(group_id) if self.ready else None

    def members(self, group_id: str) -> Collection[str]:
        """Return the member IDs of a group."""
        return self._machine.members(group_id) if self.ready else ()

    def has_member(self, group_id: str, member_id: str) -> bool:
        """Return whether a group has that member."""
        return self.ready and member_id in self._machine.members(group_id)

    def grace_ms(self, group_id: str, member_id: str) -> Millis | None:
        """Return how long a member may be without a connection, or None if only its session timeout applies."""
        return self._machine.grace_ms(group_id, member_id) if self.ready else None

    def short_grace_ms(self, group_id: str, member_id: str, who: tuple[str, str]) -> Millis | None:
        """Return how long a member may be without a connection whose process is very likely gone; see `grace_ms`."""
        return self._machine.short_grace_ms(group_id, member_id, who) if self.ready else None

    def connection_lost(self, group_id: str, member_id: str, closed_at: Millis) -> None:
        """Remove a member whose connection was closed and whose grace period has ended.

        It keeps its session if this broker was not its coordinator all the time: it may have come back to another one.
        """
        if self.ready and closed_at >= self._ready_since:
            now = self._broker.now()
            if self._machine.grace_ms(group_id, member_id) is not None:
                log.info(
                    "removing group=%s member=%s: its connection was closed %d ms ago, and it has not come back"
                    " (group.disconnect.grace.ms)",
                    printable(group_id),
                    printable(member_id),
                    now - closed_at,
                )
            self._apply(self._machine.connection_lost(group_id, member_id, closed_at, now), now)

    @property
    def all_groups(self) -> Collection[Group]:
        """All groups of the shard, for inspection."""
        return [*self._machine.groups.values(), *self._machine.consumer_groups.values()] if self.ready else []

    def expire_member(self, group_id: str, member_id: str) -> None:
        """Remove a member as if its session had expired."""
        if self.ready:
            now = self._broker.now()
            self._apply(self._machine.expire_member(group_id, member_id, now), now)

    def skip_time(self, by: Millis, connected: Set[tuple[str, str]], dead: Set[tuple[str, str]]) -> None:
        """Prepare for a clock that is about to jump by `by`; see `GroupShard.skip_time`."""
        if self.ready:
            postponed = self._machine.skip_time(by, connected, dead, self._broker.now())
            self._broker.timers.postpone({(self.partition, timer) for timer in postponed}, by)
            if self._machine.holds_end_at is not None:
                self._set_timer(HeldHeartbeatsDue(), self._machine.holds_end_at)

    def clock_changed(self) -> None:
        """Follow another rate of the clock. While the clock is frozen, no heartbeat is held: its hold would not end."""
        self._rate = self._broker.clock.rate
        if not self._rate:
            for token in self.waiting:
                self.release(token, WaitingRequest.REQUEST)

    def topics_deleted(self, names: Collection[str]) -> None:
        """Delete the offsets that groups committed for these topics; a shard that is loading does so when loaded."""
        if not self.ready:
            self._deleted_meanwhile.update(dict.fromkeys(names))
            return
        now = self._broker.now()
        self._apply(self._machine.topics_deleted(names, now), now)

    def topics_changed(self, image: MetadataImage) -> None:
        """Replace the topic metadata; a shard that is loading checks its groups when it has loaded."""
        if self._serves:
            now = self._broker.now()
            self._apply(self._machine.metadata_changed(image, now), now)

    def settings_changed(self, group_id: str) -> None:
        """Apply a group's changed configs; a shard that is loading has nothing that depends on the old ones."""
        if self.ready:
            now = self._broker.now()
            self._apply(self._machine.settings_changed([group_id], now), now)

    def acls_changed(self) -> None:
        """Match the expressions of members again; a shard that is loading does so when loaded."""
        if self.ready:
            now = self._broker.now()
            self._apply(self._machine.acls_changed(now), now)

    @property
    def weighed_topics(self) -> frozenset[str]:
        """Topics of groups whose assignor weighs the loads of partitions."""
        return self._machine.weighed_topics if self.ready else frozenset()

    def loads_measured(self, extents: Mapping[str, Sequence[PartitionExtent]]) -> None:
        """Pass the measured extents of the logs of weighed topics to the coordinator, by topic and partition."""
        if self.ready:
            now = self._broker.now()
            self._apply(self._machine.loads_measured(extents, now), now)

    def _fire(self, timer: Timer, now: Millis) -> None:
        if isinstance(timer, HeldHeartbeatsDue):
            self._holds_end_at = None
        self._apply(self._machine.fire(timer, now), now)

    def _apply(self, effects: Effects, now: Millis) -> None:
        self._take_effect(effects, now)
        self._answer_news()

    def _answer_news(self) -> None:
        """Answer held heartbeats for which there is news; many members take several turns of the event loop."""
        if self._continues_next_turn:
            return
        for _ in range(_SLICES_PER_TURN):
            if not self._machine.has_news:
                return
            now = self._broker.now()
            self._take_effect(self._machine.answer_news(now), now)
        self._continues_next_turn = True
        asyncio.get_running_loop().call_soon(self._send_more_news)

    def _send_more_news(self) -> None:
        self._continues_next_turn = False
        self._answer_news()

    def _take_effect(self, effects: Effects, now: Millis) -> None:
        if effects.records:
            if effects.producer is None:
                self._append(effects.records, now)
                self._machine.replay_all(effects.records)
            else:
                self._append_pending(effects.records, *effects.producer)
                self._machine.replay_pending(effects.records, effects.producer[0])
        for timer, at in effects.timers.items():
            self._set_timer(timer, at)
        for event in effects.events:
            if isinstance(event, TargetRefused):
                _warn_of_refused_target(event)
            elif isinstance(event, OffsetsHeldUp):
                event = replace(event, log_partition=self.partition)
            self._broker.journal.observe(event, now)
        for token, response in effects.replies.items():
            self._answer(cast("Waiter", token), response)

    def _set_timer(self, timer: Timer, at: Millis | None) -> None:
        if isinstance(timer, HeldHeartbeatsDue):
            self._holds_end_at = at
        self._broker.timers.set((self.partition, timer), at, partial(self._fire, timer))

    def _answer(self, waiter: Waiter, response: Message) -> None:
        if self._rate != 1:
            response = self._at_rate(response)
        commit = self._commit
        if commit is None or commit.done or has_no_news(waiter.request, response):
            waiter.reply(response)
        else:
            self._when_durable(lambda: waiter.reply(response), lambda: self._refuse(waiter))

    def _at_rate(self, response: Message) -> Message:
        """Return the answer for a client whose clock is real: intervals of the broker are shorter by the rate."""
        if isinstance(response, ConsumerGroupHeartbeatResponse) and response.heartbeat_interval_ms and self._rate:
            response = copy(response)
            response.heartbeat_interval_ms = max(1, int(response.heartbeat_interval_ms / self._rate))
        return response

    def _refuse(self, waiter: Waiter) -> None:
        waiter.reply(refusal(waiter.request, waiter.version, ErrorCode.NOT_COORDINATOR))

    # Transactions

    def producer(self, producer_id: int) -> Producer | None:
        """Return what the log knows of a producer; None if nothing, or if the shard is not ready."""
        return self._log.producers.get(producer_id) if self.ready else None

    def end_transaction(
        self, producer_id: int, epoch: int, marker: Marker, version: int, done: Callable[[ErrorCode], None]
    ) -> None:
        """Write a marker, which makes the offsets of the transaction visible or drops them; call `done` when durable.

        `version` is the transaction.version of the marker's sender.
        """
        if not self.ready:
            done(self._unready)
            return
        match self._log.producers.check_marker(producer_id, epoch, marker.coordinator_epoch, version):
            case Fenced():
                done(ErrorCode.INVALID_PRODUCER_EPOCH)
                return
            case CoordinatorFenced():
                done(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
                return
        try:
            self._append_batch(encode_marker(producer_id, epoch, marker, self._broker.wall()))
        except PartitionStopped:
            done(ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self._take_effect(self._machine.transaction_ended(producer_id, committed=marker.committed), self._broker.now())
        self._when_durable(lambda: done(ErrorCode.NONE), lambda: done(ErrorCode.NOT_COORDINATOR))

    # The log

    def _append(self, records: list[GroupRecord], now: Millis) -> None:
        self._append_packed(pack_records(records, self._next_delta))

    def _append_pending(self, records: list[GroupRecord], producer_id: int, epoch: int) -> None:
        wall = self._broker.wall()
        batch = encode_batch(
            (BatchRecord(at, wall, key, value, ()) for at, (key, value) in enumerate(encode_records(records))),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,  # as in Kafka: the coordinator's batches are not checked for duplicates
            transactional=True,
        )
        self._append_batch(batch)

    def _renew(self) -> GroupContents:
        self._machine = self._broker.new_group_shard(self.partition)
        return GroupContents(self._machine, f"{self.topic}-{self.partition}")

    def _begin(self) -> None:
        now = self._ready_since = self._broker.now()
        self._apply(self._machine.loaded(now), now)
        if self._deleted_meanwhile:
            names, self._deleted_meanwhile = self._deleted_meanwhile, {}
            self.topics_deleted(names)

    def _end(self) -> None:
        effects = self._machine.resign()
        for timer in effects.timers:
            self._broker.timers.set((self.partition, timer), None, unexpected_timer)
        self._holds_end_at = None  # otherwise, holds after the next `lead` would rely on a timer that never fires
        for token, response in effects.replies.items():
            cast("Waiter", token).reply(response)


def _warn_of_refused_target(event: TargetRefused) -> None:
    refused = event.refused
    who, until = "the coordinator", ""
    if refused.member_id is not None:
        who = f"member={refused.member_id}"
        until = " until the broker's own assignor computes one, at the latest after the rebalance timeout"
    log.warning(
        "no new assignment for group=%s epoch=%d: %s, by assignor=%s: %s; members keep the last target%s, and what it"
        " assigns to no member is not read: correct the assignor",
        event.group_id,
        event.epoch,
        who,
        refused.assignor,
        refused.reason,
        until,
    )
