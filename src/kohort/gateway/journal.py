"""The journal of rebalances of all groups whose members use the gateway: the shell around recorder and observer."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kohort.errors import ConfigError
from kohort.gateway.journal_outputs import JournalFile, JournalTopic
from kohort.gateway.observed import GroupObserver, TopicNames
from kohort.group_events import GroupEvent
from kohort.model import Millis, TopicPartition
from kohort.recorder import Journal, RebalanceRecord
from kohort.wire.codec import Message
from kohort.wire.messages.fetch import FetchRequest

_LOOK_S = 1.0


class GatewayJournal:
    """Writes each rebalance to a file, to a topic of the cluster, or both."""

    def __init__(self, path: Path | None, topic_client: Mapping[str, Any] | None) -> None:
        """Open the file. `topic_client` has the options of the client that writes the topic. Raises ConfigError."""
        self.names = TopicNames()
        self._observer = GroupObserver(self.names)
        self._journal = Journal()
        self.written = 0
        """Number of records so far."""
        self._file: JournalFile | None = None
        if path is not None:
            try:
                self._file = JournalFile(path)
            except OSError as problem:
                raise ConfigError(f"--journal {path} cannot be written: {problem.strerror}.") from None
        self._topic = None if topic_client is None else JournalTopic(topic_client)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def watching(self) -> bool:
        """Whether some partition is dark; only then are fetches read."""
        return self._journal.watching

    def start(self) -> None:
        """Begin to look for rebalances that end quietly."""
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)
        if self._topic is not None:
            self._topic.start()

    async def close(self) -> None:
        """Write the unfinished records as they are."""
        if self._timer is not None:
            self._timer.cancel()
        self._write(self._journal.close(_now()))
        if self._topic is not None:
            await self._topic.close()
        if self._file is not None:
            self._file.close()

    def sent(self, request: Message, client_id: str, client_host: str) -> None:
        """Take a request of a member that is on its way to the coordinator."""
        self._observe(self._observer.sent(request, client_id, client_host))

    def answered(self, request: Message, response: Message, client_id: str, client_host: str) -> None:
        """Take the coordinator's answer to a request of a member, or to the gateway's own in its place."""
        self._observe(self._observer.answered(request, response, client_id, client_host, _now()))

    def connection_lost(self, group_id: str, member_id: str, silent_ms: Millis) -> None:
        """Take a member in whose place the gateway leaves, because its connection is closed since then."""
        self._observer.connection_lost(group_id, member_id, _now() - silent_ms)

    def fetched(self, request: FetchRequest, client_id: str, client_host: str) -> None:
        """Take a fetch of a client, which may end dark periods."""
        now = _now()
        for topic in request.topics:
            name = topic.topic or self.names.name_of(topic.topic_id)
            for partition in topic.partitions if name is not None else ():
                self._write(self._journal.fetched(client_id, client_host, name or "", partition.partition, now))
        if request.session_epoch > 0:
            # KIP-227: a partition that its owner gave up and got back is still in its fetch session, and not named.
            for topic_name, number in self._kept():
                self._write(self._journal.fetched(client_id, client_host, topic_name, number, now))

    def _kept(self) -> list[TopicPartition]:
        """Return the awaited partitions that their former owner got back."""
        watched = self._journal.watched
        return [
            place
            for record in self._journal.unfinished
            for change in record.partitions
            if change.owner == change.previous_owner
            and (place := TopicPartition(change.topic, change.partition)) in watched
        ]

    def _observe(self, events: Sequence[GroupEvent]) -> None:
        for event in events:
            self._write(self._journal.observe(event, _now()))

    def _look(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look)
        if self._file is not None:
            self._file.write()
        self._observe(self._observer.quiet(_now()))
        due = self._journal.next_expiry
        if due is not None and due <= _now():
            self._write(self._journal.expire(_now()))

    def _write(self, records: Sequence[RebalanceRecord]) -> None:
        if not records:
            return
        self.written += len(records)
        if self._file is not None:
            self._file.add(records)
        if self._topic is not None:
            self._topic.add(records)


def _now() -> Millis:
    return int(time.time() * 1000)
