"""The broker's side of the rebalance journal: what the recorder finishes becomes a record of its topic."""

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kohort.coordinator.events import GroupEvent
from kohort.errors import KafkaError
from kohort.model import Millis
from kohort.recorder import JOURNAL_TOPIC, Journal, RebalanceRecord
from kohort.wire.records import Codec, Record, encode_batch

if TYPE_CHECKING:
    from kohort.broker.server import Broker

log = logging.getLogger("kohort.broker")

_LOOK_AFTER_S = 1.0
_LOOK_AT_LEAST_EVERY_S = 10.0
"""A group that is to be forgotten in an hour must not put off one whose record is due in a minute."""


class BrokerJournal:
    """Feeds the recorder and appends its records; nobody waits for them to be durable."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._journal = Journal()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def watching(self) -> bool:
        """Whether some partition is dark, so that fetches matter."""
        return self._journal.watching

    def observe(self, event: GroupEvent, now: Millis) -> None:
        """Something happened in a group."""
        self._write(self._journal.observe(event, now))
        if self._timer is None:
            # Whether there is a reason to is found out then: it takes a look at every group, and events come in crowds.
            self._timer = asyncio.get_running_loop().call_later(_LOOK_AFTER_S, self._look)

    def fetched(self, client_id: str, client_host: str, topic: str, partition: int, now: Millis) -> None:
        """A client read a partition: it may be dark no longer."""
        self._write(self._journal.fetched(client_id, client_host, topic, partition, now))

    def close(self) -> None:
        """Write what is unfinished as it stands."""
        if self._timer is not None:
            self._timer.cancel()
        self._write(self._journal.close(self._broker.now()))

    def _look_later(self) -> None:
        """Look again when the recorder would complete something, but not all the time for its sake."""
        if (due := self._journal.next_expiry) is not None:
            delay = min(max(_LOOK_AFTER_S, (due - self._broker.now()) / 1000), _LOOK_AT_LEAST_EVERY_S)
            self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        self._timer = None
        self._write(self._journal.expire(self._broker.now()))
        self._look_later()

    def _write(self, records: Sequence[RebalanceRecord]) -> None:
        if not records:
            return
        topics = self._broker.topics
        try:
            topic = topics.named(JOURNAL_TOPIC) or topics.create(JOURNAL_TOPIC, len(self._broker.leadership.nodes))
        except (OSError, KafkaError) as error:  # the group, whose event this is, must go on
            log.error("the journal of rebalances cannot be kept: %s", error)
            return
        # In a cluster each broker writes to what it leads: who reads the journal reads all of it.
        led = (topics.log(topic, index) for index in range(topic.partitions))
        partition = next((found for found in led if found is not None), None)
        if partition is None:
            log.warning("this broker leads no partition of the journal: %d rebalances are not in it", len(records))
            return
        now = self._broker.now()
        entries = [
            Record(number, now, record.group_id.encode("utf-8", "surrogateescape"), record.to_json(), ())
            for number, record in enumerate(records)
        ]
        # Compressed: the record of a large group is hundreds of kilobytes of much the same.
        try:
            partition.append(encode_batch(entries, Codec.ZSTD), partition.leader_epoch)
        except OSError as error:
            log.error("the journal of rebalances cannot be kept: %s", error)
            return
        self._broker.writer.current()
