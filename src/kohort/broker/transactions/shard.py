"""One shard of the transaction coordinator and its partition of `__transaction_state`.

Effects are always applied in one order: append the records, replay them, set the timers, and answer and write markers
once the append is on disk. Were a marker written earlier, a coordinator that loads the shard after a crash could decide
the opposite.
"""

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import Protocol, cast

from kohort.broker.config import Features
from kohort.broker.groups import LogShard, LogShardParts, unexpected_timer
from kohort.broker.transactions.contents import TransactionContents, encode_states
from kohort.broker.transactions.error_answers import refusal
from kohort.coordinator import RequestContext
from kohort.coordinator.transactions import (
    Markers,
    Transaction,
    TransactionEffects,
    TransactionShard,
    TransactionState,
    TransactionTimer,
)
from kohort.errors import ErrorCode
from kohort.log.cluster import TRANSACTIONS_TOPIC
from kohort.model import Millis, TopicPartition
from kohort.wire.codec import Message


class Dependencies(LogShardParts, Protocol):
    """The parts of the broker that this module uses."""

    features: Features

    def new_transaction_shard(self) -> TransactionShard: ...


class Waiter(Protocol):
    """The coordinator's token for a request: a `Call`, or an object that adds to the answer before passing it on."""

    request: Message
    version: int

    def reply(self, response: Message, /) -> None:
        """Send the answer."""


class TransactionPartition(LogShard):
    """The shell around one `TransactionShard`."""

    topic = TRANSACTIONS_TOPIC
    _machine: TransactionShard  # set by `lead`

    def __init__(
        self, broker: Dependencies, partition: int, write_markers: Callable[["TransactionPartition", Markers], None]
    ) -> None:
        super().__init__(broker, partition)
        self.led_from = 0
        """Number of the newest connection that was accepted before the broker began to lead the partition; 0 for a new
        partition."""
        self._broker = broker
        self._write_markers = write_markers
        self._when_over: dict[str, dict[Callable[[], None], None]] = {}
        """Calls that wait for the end of a transaction, by transactional ID."""

    @property
    def epoch(self) -> int:
        """Coordinator epoch in markers: the leader epoch of the partition."""
        return self._log.leader_epoch

    def transaction(self, transactional_id: str) -> Transaction | None:
        """Return the state of a transactional ID, for inspection."""
        return self._machine.transactions.get(transactional_id) if self.ready else None

    def handle(self, request: Message, waiter: Waiter, context: RequestContext) -> None:
        """Pass one request to the coordinator; `waiter` gets the answer now or after a sync."""
        if not self.ready:
            waiter.reply(refusal(request, waiter.version, self._unready))
            return
        now = self._broker.now()
        self._apply(self._machine.handle(request, context, now), now)

    def marked(self, markers: Markers, partitions: Collection[TopicPartition]) -> None:
        """Report that these partitions have their markers, or no longer exist."""
        if self.ready:
            now = self._broker.now()
            done = self._machine.marked(markers.transactional_id, markers.producer_id, markers.epoch, partitions, now)
            self._apply(done, now)
            if not self._is_busy(markers.transactional_id):
                self._over(markers.transactional_id)

    def when_over(self, transactional_id: str, call: Callable[[], None]) -> Callable[[], object]:
        """Call `call` later: once no markers of a transaction are missing, or this shard no longer waits for them.

        Return a function that withdraws the call.
        """
        calls = self._when_over.setdefault(transactional_id, {})
        calls[call] = None
        if not self._is_busy(transactional_id):
            self._over(transactional_id)
        return partial(calls.pop, call, None)

    def _is_busy(self, transactional_id: str) -> bool:
        found = self.transaction(transactional_id)
        return found is not None and found.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    def _over(self, transactional_id: str) -> None:
        for call in self._when_over.pop(transactional_id, ()):
            asyncio.get_running_loop().call_soon(call)

    def is_ending(self, markers: Markers) -> bool:
        """Return whether the transaction of these markers still waits for some of them."""
        found = self.transaction(markers.transactional_id)
        return (
            found is not None
            and self._is_busy(markers.transactional_id)
            and (found.producer_id, found.epoch) == (markers.producer_id, markers.epoch)
        )

    def _fire(self, timer: TransactionTimer, now: Millis) -> None:
        self._apply(self._machine.fire(timer, now), now)

    def _apply(self, effects: TransactionEffects, now: Millis) -> None:
        if effects.records:
            pairs = encode_states(effects.records, flexible=self._broker.features.transaction_version > 0)
            # Nobody waits for the record that all markers are written: without it they would be written again.
            self._append_pairs(pairs, in_a_hurry=bool(effects.replies or effects.markers))
            for record in effects.records:
                self._machine.replay(record)
        for timer, at in effects.timers.items():
            self._broker.timers.set((TRANSACTIONS_TOPIC, self.partition, timer), at, partial(self._fire, timer))
        for token, response in effects.replies.items():
            waiter = cast("Waiter", token)
            self._when_durable(partial(waiter.reply, response), partial(self._refuse, waiter))
        for markers in effects.markers:
            self._when_durable(partial(self._write_markers, self, markers), _dropped)

    def _refuse(self, waiter: Waiter) -> None:
        waiter.reply(refusal(waiter.request, waiter.version, ErrorCode.NOT_COORDINATOR))

    def _renew(self) -> TransactionContents:
        self._machine = self._broker.new_transaction_shard()
        return TransactionContents(self._machine, f"{self.topic}-{self.partition}")

    def _begin(self) -> None:
        now = self._broker.now()
        self._apply(self._machine.loaded(now), now)

    def _end(self) -> None:
        for timer in self._machine.resign().timers:
            self._broker.timers.set((TRANSACTIONS_TOPIC, self.partition, timer), None, unexpected_timer)
        for transactional_id in list(self._when_over):
            self._over(transactional_id)


def _dropped() -> None:
    """Write no markers: the decision is not in the log, and the shard is loaded again."""
