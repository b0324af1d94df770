"""Samples of the partitions' earliest offsets, which change rarely: when retention or DeleteRecords deletes records."""

from collections.abc import Set

from kohort.client import OffsetSpec
from kohort.model import Millis, TopicPartition
from kohort.watch.live import Live
from kohort.watch.source.clients import clock
from kohort.watch.source.offsets import OffsetQuestions

_EVERY_MS: Millis = 60_000
"""Shortest interval between two samples of a partition. Kafka deletes old records every five minutes."""
_AT_ONCE = 500
"""Number of partitions that one round asks for. It takes a few milliseconds."""


class StartsSampler:
    """Sampler of the earliest offsets, some in each round."""

    def __init__(self, questions: OffsetQuestions, live: Live) -> None:
        self._questions = questions
        self._live = live
        self._wanted: Set[TopicPartition] = frozenset()
        self._due: list[TopicPartition] = []
        self._began: Millis = 0
        """Time of the last turn of all partitions."""

    async def sample(self, wanted: Set[TopicPartition]) -> None:
        """Ask for some of the partitions, new ones first. Raises KafkaError if no broker answers."""
        if wanted is not self._wanted:
            self._due += wanted - self._wanted
            self._wanted = wanted
        if not self._due and not 0 <= clock() - self._began < _EVERY_MS:
            self._began, self._due = clock(), sorted(wanted, reverse=True)
        some, self._due = self._due[-_AT_ONCE:], self._due[:-_AT_ONCE]
        some = [partition for partition in some if partition in wanted]
        if not some:
            return
        answers = await self._questions.ask(dict.fromkeys(some, int(OffsetSpec.EARLIEST)))
        self._live.started({partition: found.end for partition, found in answers.items() if found is not None})
