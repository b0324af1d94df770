"""The part of each partition that `kohort consume` reads without a group: where it starts and ends."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kohort.cli.output import print_note
from kohort.errors import ConfigError
from kohort.model import Millis, TopicPartition

if TYPE_CHECKING:
    from kohort.client import Consumer

_WORDS = {"beginning": "beginning", "earliest": "beginning", "end": "end", "latest": "end", "stored": "stored"}


@dataclass(frozen=True, slots=True)
class FromOffset:
    """Start at this offset."""

    offset: int


@dataclass(frozen=True, slots=True)
class LastRecords:
    """Start this many offsets before the end."""

    count: int


@dataclass(frozen=True, slots=True)
class FromTime:
    """Start at the first record that has this timestamp or a later one."""

    at: Millis


Start = str | FromOffset | LastRecords | FromTime
"""Start of reading, or one of the words beginning, end and stored."""


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Range of records to read from each partition."""

    start: Start | None = None
    """None for the default: a group's committed offset, else the end."""
    until: Millis | None = None
    """Time of the first record that is not read."""
    exit_at_end: bool = False

    @property
    def words_only(self) -> bool:
        """Whether a consumer finds the start by itself, and there is no end."""
        return (self.start is None or isinstance(self.start, str)) and not self.has_end

    @property
    def has_end(self) -> bool:
        """Whether reading ends without a signal."""
        return self.exit_at_end or self.until is not None

    async def offsets(
        self, consumer: "Consumer", partitions: Collection[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
        """Return the first offset of each partition to read, and the offset at which to stop, if there is an end."""
        beginnings = await consumer.beginning_offsets(partitions)
        ends = await consumer.end_offsets(partitions)
        match self.start:
            case "beginning":
                starts = beginnings
            case FromOffset(offset):
                starts = dict.fromkeys(partitions, offset)
            case LastRecords(count):
                starts = {partition: max(end - count, beginnings[partition]) for partition, end in ends.items()}
            case FromTime(at):
                starts = ends | await _at_time(consumer, partitions, at)
            case _:
                starts = ends
        for partition, start in starts.items():
            if not beginnings[partition] <= start <= ends[partition]:
                limits = f"{partition} has the offsets {beginnings[partition]} to {ends[partition]}"
                starts[partition] = min(max(start, beginnings[partition]), ends[partition])
                print_note(f"kohort: {limits}, not {start}; reading starts at {starts[partition]}")
        stops = {}
        if self.has_end:
            stops = ends if self.until is None else ends | await _at_time(consumer, partitions, self.until)
        return starts, stops


async def _at_time(
    consumer: "Consumer", partitions: Collection[TopicPartition], at: Millis
) -> dict[TopicPartition, int]:
    found = await consumer.offsets_for_times(dict.fromkeys(partitions, at))
    return {partition: place.offset for partition, place in found.items() if place is not None}


async def note_open_transactions(consumer: "Consumer", stops: Mapping[TopicPartition, int]) -> None:
    """Say which partitions are read only up to an open transaction, by a consumer that reads committed records."""
    from kohort.client import OffsetSpec
    from kohort.client.net import list_offsets

    stable = await consumer.end_offsets(stops)
    ends = await list_offsets(consumer.cluster, dict.fromkeys(stops, OffsetSpec.LATEST))
    for partition, stop in stops.items():
        end = ends[partition]
        if end is not None and stop == stable[partition] < end.offset:
            print_note(
                f"kohort: {partition} is read up to offset {stop} of {end.offset}: the transaction that begins there"
                " is open; `kohort transactions list` names it"
            )


def read_offsets(given: Sequence[str]) -> tuple[Start | None, Millis | None]:
    """Parse values of --offset as kcat does, and return the start and the time of the end. Raises ConfigError."""
    starts: list[Start] = []
    untils: list[Millis] = []
    for text in given:
        if text in _WORDS:
            starts.append(_WORDS[text])
        elif re.fullmatch(r"[0-9]{1,18}", text):
            starts.append(FromOffset(int(text)))
        elif re.fullmatch(r"-[0-9]{1,18}", text):
            starts.append(LastRecords(-int(text)))
        elif found := re.fullmatch(r"([se])@([0-9]{1,18})", text):
            if found[1] == "s":
                starts.append(FromTime(int(found[2])))
            else:
                untils.append(int(found[2]))
        else:
            raise ConfigError(
                f"--offset takes beginning, end, an offset such as 7, -5 for the last 5, s@ and e@ with"
                f" milliseconds since 1970, not {text!r}."
            )
    if len(starts) > 1 or len(untils) > 1:
        raise ConfigError(f"--offset {' and '.join(given)} contradict each other.")
    return next(iter(starts), None), next(iter(untils), None)
