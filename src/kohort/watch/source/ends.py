"""Samples of the partitions' end offsets."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

from kohort.client import KafkaError, OffsetSpec
from kohort.model import Millis, TopicPartition
from kohort.requests import ClusterMetadata
from kohort.watch.live import GroupsChanged, Live, LiveEvent
from kohort.watch.source.clients import ClockJumps, clock
from kohort.watch.source.dating import LagDater
from kohort.watch.source.offsets import OffsetQuestions
from kohort.watch.source.starts import StartsSampler
from kohort.wire.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse

_AT_ONCE = 10_000
"""Number of partitions whose ends are sampled in one round. It takes about 20 ms."""
_IN_REQUEST = 1_000
"""Number of partitions in one request, so that no response holds up the event loop for long."""
_ALL_EVERY_MS = 5_000
"""Interval between looks at all groups, for partitions and lags that nobody needs any more."""
_BUSY_MS = 60_000
"""Time for which a partition is sampled in each round after its end has changed."""


class EndsSampler:
    """Sampler of the end offsets of all partitions that a group owns or has committed to.

    Up to 10,000 partitions are sampled in each round. If there are more, those that changed within a
    minute are, and the others take turns.
    """

    def __init__(
        self, questions: OffsetQuestions, dater: LagDater, live: Live, clock: Callable[[], Millis] = clock
    ) -> None:
        self._clock = clock
        self._jumps = ClockJumps()
        self._questions = questions
        self._dater = dater
        self._live = live
        self._starts = StartsSampler(questions, live)
        self._wanted: set[TopicPartition] = set()
        self._looked_at: Millis = 0
        """Time of the last look at all groups."""
        self._touched: set[str] = set()
        """Groups that changed since the last round."""
        self._ends = defaultdict[str, dict[int, int]](dict)
        """Last end of each partition, by topic."""
        self._changed: dict[TopicPartition, Millis] = {}
        """Time at which the end of each partition changed last, if there are too many for one round."""
        self._sampled: dict[TopicPartition, Millis] = {}
        """Time of the last sample of the partitions that were left out since, or did not answer."""
        self._last_round: Millis = 0
        self._turn: Iterator[TopicPartition] = iter(())
        """Quiet partitions that still await a sample, if there are too many for one round."""
        self._plan: list[tuple[int, ListOffsetsRequest]] = []
        """Requests of a round, with the brokers. They stay the same while leaders and partitions do."""
        self._planned: tuple[ClusterMetadata | None, list[TopicPartition]] = None, []
        self._unsubscribe = live.subscribe(self._told)

    async def close(self) -> None:
        """Stop listening, and end what was begun."""
        self._unsubscribe()
        await self._dater.close()

    def _told(self, event: LiveEvent, _now: Millis) -> None:
        if isinstance(event, GroupsChanged):
            self._touched |= event.group_ids

    async def sample(self) -> None:
        """Take the ends, and find the times that lags need. Raises KafkaError if no broker answers."""
        now = self._clock()
        if self._jumps.jumped(now, asyncio.get_running_loop().time()):
            self._forget_times(now)
        whole = not 0 <= now - self._looked_at < _ALL_EVERY_MS
        touched, self._touched = (set(self._live.groups) if whole else self._touched), set()
        self._look(touched, whole=whole, now=now)
        await self._take_ends(self._due(now))
        await self._dater.date(touched)
        await self._starts.sample(self._wanted)
        if whole:
            self._dater.keep_only_committed()

    def _forget_times(self, now: Millis) -> None:
        """Forget what was sampled when: times before and after the clock was set have no difference."""
        for table in self._live.ends.values():
            table.forget_times(now)
        self._changed.clear()
        self._sampled.clear()
        self._last_round, self._looked_at = now, 0

    # -- which partitions

    def _look(self, group_ids: Iterable[str], *, whole: bool, now: Millis) -> None:
        """Find the partitions that the groups need."""
        groups = [group for group_id in group_ids if (group := self._live.groups.get(group_id)) is not None]
        wanted = {partition for group in groups for partition in group.commits}
        for group in groups:
            for member in group.members.values():
                wanted |= member.owned
        before = self._wanted
        if whole:
            self._looked_at, self._wanted = now, wanted
            self._forget(before - wanted)
        elif not wanted <= before:
            self._wanted = before | wanted
        if self._wanted != before:
            self._questions.keep({partition.topic for partition in self._wanted})

    def _forget(self, partitions: set[TopicPartition]) -> None:
        for partition in partitions:
            self._ends[partition.topic].pop(partition.partition, None)
            self._changed.pop(partition, None)
            self._sampled.pop(partition, None)
        if partitions:
            for topic in [topic for topic, known in self._ends.items() if not known]:
                del self._ends[topic]
            self._live.keep_ends(self._wanted)

    def _due(self, now: Millis) -> list[TopicPartition]:
        wanted = self._wanted
        if refused := self._questions.refused(now):
            wanted = {partition for partition in wanted if partition.topic not in refused}
        if len(wanted) <= _AT_ONCE:
            planned = self._planned[1]
            return planned if len(planned) == len(wanted) and wanted.issuperset(planned) else sorted(wanted)
        due = [partition for partition in wanted if now - self._changed.get(partition, 0) < _BUSY_MS][:_AT_ONCE]
        busy, size = set(due), len(due)
        while len(due) < _AT_ONCE:
            partition = next(self._turn, None)
            if partition is not None:
                if partition in wanted and partition not in busy:
                    due.append(partition)
                continue
            if len(due) > size:
                break
            self._turn = iter(wanted - busy)
        for partition in wanted.difference(due):
            self._sampled.setdefault(partition, self._last_round)
        return due

    # -- their ends

    async def _take_ends(self, due: list[TopicPartition]) -> None:
        if self._planned[0] is not self._questions.metadata or self._planned[1] is not due:
            await self._make_plan(due)
        responses = await asyncio.gather(*(self._questions.send(node, request) for node, request in self._plan))
        problems = [response for response in responses if isinstance(response, KafkaError)]
        if problems and len(problems) == len(responses):
            raise problems[0]
        now = self._clock()
        changed: dict[TopicPartition, int] = {}
        refused: dict[TopicPartition, int] = {}
        for (_, request), response in zip(self._plan, responses, strict=True):
            if not isinstance(response, KafkaError):
                self._compare(response, changed, refused)
                continue
            for asked in request.topics:
                for entry in asked.partitions:
                    refused[TopicPartition(asked.name, entry.partition_index)] = response.code
        self._take(changed, now)
        self._remember_unanswered(due, refused)
        self._last_round = now
        self._questions.refuse(refused)
        if self._live.unsolved:
            asked_for = {topic.name for _, request in self._plan for topic in request.topics}
            self._questions.answered(asked_for - {partition.topic for partition in refused})
        self._live.sampled(changed, now)

    async def _make_plan(self, due: list[TopicPartition]) -> None:
        by_node = await self._questions.leaders(due)
        self._plan = [
            (node, self._questions.request(dict.fromkeys(some, int(OffsetSpec.LATEST))))
            for node, partitions in by_node.items()
            for some in _parts(partitions)
        ]
        self._planned = self._questions.metadata, due

    def _compare(
        self, response: ListOffsetsResponse, changed: dict[TopicPartition, int], refused: dict[TopicPartition, int]
    ) -> None:
        """Add what differs from the last round. Nearly nothing does, so the loop makes no objects."""
        for topic in response.topics:
            known = self._ends[topic.name]
            for entry in topic.partitions:
                if entry.error_code:
                    refused[TopicPartition(topic.name, entry.partition_index)] = entry.error_code
                elif known.get(entry.partition_index) != entry.offset:
                    changed[TopicPartition(topic.name, entry.partition_index)] = entry.offset

    def _take(self, changed: dict[TopicPartition, int], now: Millis) -> None:
        for partition, end in changed.items():
            known = self._ends[partition.topic]
            if partition.partition in known:  # it had the old end until the last sample
                self._live.stood_still(partition, self._sampled.get(partition, self._last_round))
            known[partition.partition] = end
            if len(self._wanted) > _AT_ONCE:
                self._changed[partition] = now

    def _remember_unanswered(self, due: list[TopicPartition], refused: dict[TopicPartition, int]) -> None:
        if self._sampled:
            for partition in due:
                if partition not in refused:
                    self._sampled.pop(partition, None)
        for partition in refused:
            self._sampled.setdefault(partition, self._last_round)


def _parts(partitions: list[TopicPartition]) -> Iterator[list[TopicPartition]]:
    for start in range(0, len(partitions), _IN_REQUEST):
        yield partitions[start : start + _IN_REQUEST]
