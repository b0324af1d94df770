"""Records on their way from a consumer to standard output, until the end that `kohort consume` was given."""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.cli.output import flush, print_exactly
from kohort.cli.read_range import ReadRange, note_open_transactions
from kohort.cli.record_format import Formatter, ValuesFormatter
from kohort.model import TopicPartition

if TYPE_CHECKING:
    from kohort.client import Consumer, ConsumerRecord

_AT_ONCE = 10_000
_POLL_S = 60.0
_POLL_FOR_END_S = 0.2
"""Time between two checks whether the end is reached if no records arrive, in seconds."""


@dataclass(slots=True)
class Reading:
    """Records on their way to standard output."""

    form: Formatter
    values_form: ValuesFormatter | None
    """Formatter if nothing but values is printed and nothing is left out."""
    most: int | None
    is_committed: bool = False
    """Whether records of open transactions are left out."""
    quiet: bool = False
    """Whether notes are left out."""
    timeout: float | None = None
    """Longest time without a record while there are partitions to read, in seconds."""
    count: int = 0
    """Number of printed records."""
    stops: dict[TopicPartition, int] | None = None
    """Without a group: offset at which each partition that is still read ends. None if there is no end."""
    group_ends: dict[TopicPartition, int] | None = None
    """With a group: ends of all partitions at the start. None if there is no end."""

    async def limit(self, consumer: "Consumer", part: ReadRange, partitions: Collection[TopicPartition]) -> None:
        """Go to the start of each partition, and remember its end."""
        starts, stops = await part.offsets(consumer, partitions)
        for partition, start in starts.items():
            consumer.seek(partition, start)
        if part.has_end:
            await self.note_open_transactions(consumer, stops)
            self.stops = stops
            self._leave_out_finished(consumer)

    async def note_open_transactions(self, consumer: "Consumer", stops: Mapping[TopicPartition, int]) -> None:
        """Say which partitions are read only up to an open transaction."""
        if self.is_committed and not self.quiet:
            await note_open_transactions(consumer, stops)

    async def read(self, consumer: "Consumer") -> None:
        """Print records until the end, if there is one."""
        wait = _POLL_S if self.stops is None and self.group_ends is None else _POLL_FOR_END_S
        if self.timeout is not None:
            wait = min(wait, self.timeout)
        active = time.monotonic()
        while not self._is_finished(consumer):
            most = _AT_ONCE if self.most is None else min(self.most - self.count, _AT_ONCE)
            count = await (
                self._print_records(consumer, most, wait)
                if self.values_form is None
                else self._print_values(consumer, self.values_form, most, wait)
            )
            if count:
                self.count += count
                flush()
            if count or not consumer.assignment:
                active = time.monotonic()
            elif self.timeout is not None and time.monotonic() - active >= self.timeout:
                return

    async def _print_records(self, consumer: "Consumer", most: int, wait: float) -> int:
        records: Sequence[ConsumerRecord] = await consumer.poll(most, wait)
        if self.stops is not None:
            positions = consumer.positions()
            if any(positions.get(partition, 0) > stop for partition, stop in self.stops.items()):
                records = self._before_end(records)
            self._leave_out_finished(consumer)
        if records:
            print_exactly(self.form(records))
        return len(records)

    async def _print_values(self, consumer: "Consumer", form: ValuesFormatter, most: int, wait: float) -> int:
        """Print values. At the end of a partition, these may include some that were written in the meantime."""
        runs = await consumer.poll_values(most, wait)
        for _, values in runs:
            print_exactly(form(values))
        if self.stops is not None:
            self._leave_out_finished(consumer)
        return sum(len(values) for _, values in runs)

    def _is_finished(self, consumer: "Consumer") -> bool:
        if self.count == self.most or self.stops == {}:
            return True
        if self.group_ends is None:
            return False
        positions = consumer.positions()
        return (
            bool(positions)
            and positions.keys() == consumer.assignment
            and all(position >= self.group_ends.get(partition, 0) for partition, position in positions.items())
        )

    def _before_end(self, records: Sequence["ConsumerRecord"]) -> Sequence["ConsumerRecord"]:
        assert self.stops is not None
        stops = self.stops
        return [record for record in records if record.offset < stops[TopicPartition(record.topic, record.partition)]]

    def _leave_out_finished(self, consumer: "Consumer") -> None:
        """Stop reading partitions that are at their end. An empty one has no position to wait for."""
        assert self.stops is not None
        positions = consumer.positions()
        finished = [partition for partition, stop in self.stops.items() if positions.get(partition, -1) >= stop]
        for partition in finished:
            del self.stops[partition]
        if finished:
            consumer.incremental_unassign(finished)
