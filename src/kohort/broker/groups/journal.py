"""The broker's side of the rebalance journal: each record that the recorder completes is appended to its topic."""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from kohort.broker.logs import Leadership, Topics, Writer, partition_to_append
from kohort.errors import KafkaError
from kohort.group_events import GroupEvent, MemberRefused, OffsetsHeldUp
from kohort.model import Millis
from kohort.recorder import JOURNAL_TOPIC, HeldOffsets, Journal, RebalanceRecord
from kohort.wire.batches import Codec, Record, encode_batch


class Dependencies(Protocol):
    """The parts of the broker that this module uses."""

    leadership: Leadership
    node_id: int
    topics: Topics
    writer: Writer

    def now(self) -> Millis: ...

    def wall(self) -> Millis: ...


log = logging.getLogger("kohort.broker")

_LOOK_AFTER_S = 1.0
_LOOK_AT_LEAST_EVERY_S = 10.0
"""Limit on the delay: a group that expires in an hour must not delay one whose record is due in a minute."""
_MOST_UNWRITTEN = 1_000


class BrokerJournal:
    """Feed the recorder and append its records; nothing waits until they are durable."""

    def __init__(self, broker: Dependencies) -> None:
        self._broker = broker
        self._journal = Journal()
        self._timer: asyncio.TimerHandle | None = None
        self._unwritten: list[RebalanceRecord] = []
        """Records that wait until this broker leads a partition of the journal."""

    @property
    def watching(self) -> bool:
        """Whether some partition is dark; only then does the recorder need to know about fetches."""
        return self._journal.watching

    @property
    def unfinished(self) -> list[RebalanceRecord]:
        """Rebalances that are over, and whose records still wait for the first reads of some partitions."""
        return self._journal.unfinished

    def observe(self, event: GroupEvent, now: Millis) -> None:
        """Pass an event of a group to the recorder."""
        fresh = self._journal.observe(event, now)
        if isinstance(event, MemberRefused) and fresh:
            _warn_of(event)
        elif isinstance(event, OffsetsHeldUp):
            _log_hold_up(event, now)
        self._write(fresh)
        if self._timer is None:
            # The timer checks whether anything is due: the check examines every group, and events arrive in bursts.
            self._timer = asyncio.get_running_loop().call_later(_LOOK_AFTER_S, self._look)

    def fetched(self, client_id: str, client_host: str, topic: str, partition: int, now: Millis) -> None:
        """Record that a client fetched from a partition, which may end the partition's dark period."""
        self._write(self._journal.fetched(client_id, client_host, topic, partition, now))

    def close(self) -> None:
        """Write the unfinished records as they are."""
        if self._timer is not None:
            self._timer.cancel()
        self._write(self._journal.close(self._broker.now()))
        if self._unwritten:
            log.warning("%d rebalances are not in the journal: no partition to write", len(self._unwritten))

    def _look_later(self) -> None:
        """Schedule the next check for when the recorder will complete a record, within the two limits on the delay."""
        due = self._broker.now() if self._unwritten else self._journal.next_expiry
        if due is not None:
            delay = min(max(_LOOK_AFTER_S, (due - self._broker.now()) / 1000), _LOOK_AT_LEAST_EVERY_S)
            self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        self._timer = None
        self._write(self._journal.expire(self._broker.now()))
        self._look_later()

    def _write(self, fresh: Sequence[RebalanceRecord]) -> None:
        records, self._unwritten = [*self._unwritten, *fresh], []
        if not records:
            return
        try:
            partition = partition_to_append(self._broker, JOURNAL_TOPIC)
            if partition is None:
                self._keep(records)
            else:
                partition.append(_encoded(records, self._broker.wall()), partition.leader_epoch)
                self._broker.writer.current()
        except (OSError, KafkaError) as error:  # the group that raised the event must go on
            log.error("the journal of rebalances cannot be written: %s", error)

    def _keep(self, records: list[RebalanceRecord]) -> None:
        """Keep the newest records until this broker leads a partition."""
        self._unwritten = records[-_MOST_UNWRITTEN:]
        if len(records) > _MOST_UNWRITTEN:
            log.warning("%d rebalances are not in the journal: no partition to write", len(records) - _MOST_UNWRITTEN)


def _warn_of(event: MemberRefused) -> None:
    member = event.member
    log.warning(
        "a member cannot join group=%s: client=%s host=%s code=%s: %s",
        event.group_id,
        member.client_id,
        member.client_host,
        event.code,
        event.reason,
    )


def _log_hold_up(event: OffsetsHeldUp, now: Millis) -> None:
    held = HeldOffsets.of(event)
    waited_s = (now - held.waiting_since) / 1000
    if held.end is not None:
        log.info(
            "members of group=%s no longer wait for the transaction of %s: %s after %.1f s",
            event.group_id,
            held.transaction,
            held.end,
            waited_s,
        )
        return
    log.warning(
        "members of group=%s have waited %.1f s for the open transaction of %s, which has offsets of %s since %s: %s",
        event.group_id,
        waited_s,
        held.transaction,
        held.listed,
        datetime.fromtimestamp(held.pending_since / 1000, UTC).isoformat(timespec="milliseconds"),
        held.advice,
    )


def _encoded(records: Sequence[RebalanceRecord], now: Millis) -> bytearray:
    """Encode one batch. It is compressed: the record of a large group is hundreds of kilobytes of repetitive text."""
    entries = [
        Record(number, now, record.group_id.encode("utf-8", "surrogateescape"), record.to_json(), ())
        for number, record in enumerate(records)
    ]
    return encode_batch(entries, Codec.ZSTD)
