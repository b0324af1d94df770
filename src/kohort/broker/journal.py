"""The broker's side of the rebalance journal: what the recorder finishes becomes a record of its topic."""

import asyncio
from typing import TYPE_CHECKING

from kohort.coordinator.events import GroupEvent
from kohort.model import Millis
from kohort.recorder import Journal

if TYPE_CHECKING:
    from kohort.broker.server import Broker

_LOOK_EVERY_S = 1.0


class BrokerJournal:
    """Feeds the recorder and appends its records; nobody waits for them to be durable."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._journal = Journal()
        self._timer: asyncio.TimerHandle | None = None
        self.fetched_by_nobody = 0

    @property
    def watching(self) -> bool:
        """Whether some partition is dark, so that fetches matter."""
        return self._journal.watching

    def observe(self, event: GroupEvent, now: Millis) -> None:
        """Something happened in a group."""
        self._write(self._journal.observe(event, now))
        self._look_later()

    def fetched(self, client_id: str, client_host: str, topic: str, partition: int, now: Millis) -> None:
        """A client read a partition: it may be dark no longer."""
        self._write(self._journal.fetched(client_id, client_host, topic, partition, now))

    def close(self) -> None:
        """Write what is unfinished as it stands."""
        if self._timer is not None:
            self._timer.cancel()
        self._write(self._journal.close(self._broker.now()))
