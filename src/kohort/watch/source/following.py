"""Follow the log of the groups: its records become changes of `Live`, in order."""

import asyncio
from collections.abc import Iterable, Sequence

from kohort.client import Cluster, KafkaError
from kohort.model import UUID, Millis
from kohort.watch.changes import AssignmentWritten, Change, CommitDeleted, Committed, TopicNamed
from kohort.watch.live import Live
from kohort.watch.reader import LogReader, LogRecord, assigned_topics
from kohort.watch.source.clients import clock
from kohort.watch.source.log_stream import Ends, LogStream
from kohort.watch.source.skimming import Skimmer

_MOST_RECORDS = 10_000
_MOST_ROWS = 200_000
_MANY = 10_000
"""Number of records in one batch from which it is history: superseded commits are left out."""
_POLL_S = 1.0
_NAMES, _UNNAMED = "names of topics", "topics without a name"
_PAUSES_S = (0.1, 0.3, 0.6, 1.0)
"""Pauses between questions for the name of a topic that may be new."""
_NEW_MS: Millis = 10_000
"""Age of an assignment up to which its topic may be new."""
_ASK_AGAIN_MS = 5_000
"""Time after which the name of an unknown topic is asked for again: a broker may learn of a new topic late."""

NO_NAMES = (
    "Partitions of some topics are left out, because the topics have no names: they are deleted, or need the ACL"
    " Describe on the topic."
)


class LogFollower:
    """Reader of the groups' log. One task calls `step` in a loop; others wait in `reach`."""

    def __init__(self, stream: LogStream, live: Live, cluster: Cluster) -> None:
        self.changed: set[str] | None = None
        """Groups of which the log told more than commits, while somebody wants to know; else None."""
        self._stream = stream
        self._live = live
        self._cluster = cluster
        self._reader = LogReader()
        self._reader.counts = live.counts
        self._skimmer = Skimmer()
        self._stepped = asyncio.Condition()
        self._unknown: dict[UUID, Millis] = {}
        """Topics without a name, with the time of the last question."""

    async def step(self) -> None:
        """Read and apply the next records, or none after a second. Raises KafkaError; nothing is lost then."""
        records = await self._read()
        if records:
            changes = self._reader.read(records)
            topics = assigned_topics(changes)
            # A commit may tell the name of a topic, and be read together with the assignment before it.
            self._live.watcher.name_topics({topic_id: name for topic_id, name in topics.items() if name is not None})
            unnamed = topics.keys() - self._live.watcher.topic_names.keys()
            newest = max((change.at for change in changes if isinstance(change, AssignmentWritten)), default=0)
            if unnamed and clock() - newest < _NEW_MS:
                await self._name_new_topics(unnamed)
            await self._name_topics(unnamed - self._live.watcher.topic_names.keys())
            if self.changed is not None:
                self.changed.update(_rebalancing(changes))
            self._live.apply(changes, clock())
            if self._unknown:
                self._take_names(changes)
            if self._reader.counts.first_unreadable is not None:
                self._live.problem(self._reader.counts.first_unreadable, clock())
        async with self._stepped:
            self._stepped.notify_all()

    async def _read(self) -> Sequence[LogRecord]:
        """Read some records. Of much history, those are left out that do not matter."""
        if self._stream.has_much():
            batches = await self._stream.read_columns(_MOST_ROWS, _POLL_S)
            number = sum(batch.records.num_rows for batch in batches)
            records: Sequence[LogRecord] = self._skimmer.skim_columns(batches)
        else:
            polled = await self._stream.read(_MOST_RECORDS, _POLL_S)
            number = len(polled)
            records = self._skimmer.skim(polled) if number >= _MANY else polled
        self._reader.gaps = self._skimmer.gaps
        self._live.counts.records += number - len(records)
        return records

    async def reach(self, ends: Ends) -> None:
        """Wait until all records before these offsets are applied."""
        async with self._stepped:
            await self._stepped.wait_for(lambda: not self._stream.behind(ends))

    async def _name_new_topics(self, ids: Iterable[UUID]) -> None:
        """Wait up to two seconds for the names of topics: a broker may learn of a new topic after its group."""
        new = {topic_id for topic_id in ids if topic_id not in self._unknown}
        for pause in _PAUSES_S if new else ():
            try:
                known = (await self._cluster.metadata_of(None)).topics.values()
            except KafkaError:
                return
            self._live.watcher.name_topics({topic.topic_id: topic.name for topic in known if topic.topic_id in new})
            if new <= self._live.watcher.topic_names.keys():
                return
            await asyncio.sleep(pause)

    async def _name_topics(self, ids: Iterable[UUID]) -> None:
        now = clock()
        wanted = {topic_id for topic_id in ids if not 0 <= now - self._unknown.get(topic_id, 0) < _ASK_AGAIN_MS}
        if not wanted:
            return
        try:
            # Metadata of all topics may contain errors of some, such as one that may not be described.
            known = (await self._cluster.metadata_of(None)).topics
        except KafkaError as problem:
            self._live.problem(f"The names of some topics cannot be read: {problem}", now, about=_NAMES)
            known = {}
        else:
            self._live.solved(_NAMES, now)
        names = {topic.topic_id: topic.name for topic in known.values() if topic.topic_id in wanted}
        self._live.watcher.name_topics(names)
        if known and any(topic_id in self._unknown for topic_id in wanted - names.keys()):
            # A broker that learns of a new topic late knows it by now.
            self._live.problem(NO_NAMES, now, about=_UNNAMED)
        for topic_id in wanted:
            self._unknown.pop(topic_id, None)  # the dictionary stays in the order of its times
            if topic_id not in names:
                self._unknown[topic_id] = now
        while len(self._unknown) > _MOST_RECORDS:
            del self._unknown[next(iter(self._unknown))]

    def _take_names(self, changes: Iterable[Change]) -> None:
        """Take the names of topics that commits tell, where the topics may not be described."""
        names = {
            change.topic_id: change.name
            for change in changes
            if isinstance(change, TopicNamed) and self._unknown.pop(change.topic_id, None) is not None
        }
        self._live.named_late(names, clock())

    async def name_again(self) -> None:
        """Ask again for the names of topics that have none. Those that a member needs are a problem.

        Raises KafkaError.
        """
        now = clock()
        if _UNNAMED not in self._live.unsolved and not self._needed() & self._unknown.keys():
            return
        known = (await self._cluster.metadata_of(None)).topics
        names = {topic.topic_id: topic.name for topic in known.values() if topic.topic_id in self._unknown}
        for topic_id in names:
            del self._unknown[topic_id]
        self._live.named_late(names, now)
        self._live.solved(_NAMES, now)
        if self._needed() & self._unknown.keys():
            self._live.problem(NO_NAMES, now, about=_UNNAMED)
        else:
            self._live.solved(_UNNAMED, now)

    def _needed(self) -> set[UUID]:
        """Return the topics in which members have partitions."""
        return {
            topic_id
            for group in self._live.groups.values()
            for member in group.members.values()
            for topic_id, _ in member.held or ()
        }


def _rebalancing(changes: Iterable[Change]) -> set[str]:
    return {change.group_id for change in changes if not isinstance(change, Committed | CommitDeleted | TopicNamed)}
