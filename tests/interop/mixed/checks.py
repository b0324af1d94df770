"""Invariants of a group's history; each check returns a sentence per violation."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from kohort.model import Millis
from tests.interop.mixed.events import Assigned, Event, Lost, Read, Revoked, Wrong
from tests.interop.mixed.offsets_log import Generation


class Life(Protocol):
    """Events of one member from its start to its end."""

    @property
    def name(self) -> str: ...

    @property
    def events(self) -> Sequence[Event]: ...

    @property
    def killed_at(self) -> Millis | None: ...


def owned_twice(lives: Iterable[Life]) -> list[str]:
    """By the members' own clock and word: two may process a partition at the same time."""
    problems = []
    spells: dict[int, list[tuple[Millis, Millis, str]]] = defaultdict(list)
    for life in lives:
        for partition, since, until in _spells(life):
            spells[partition].append((since, until, life.name))
    for partition, held in spells.items():
        held.sort()
        for (_, until, before), (since, _, after) in itertools.pairwise(held):
            if since < until:
                problems.append(f"partition {partition}: {after} had it {until - since} ms before {before} gave it up")
    return problems


_FOREVER: Millis = 1 << 62


def _spells(life: Life) -> list[tuple[int, Millis, Millis]]:
    """Partition, from when, until when; a member that was killed had its partitions until then."""
    since: dict[int, Millis] = {}
    spells = []
    for event in life.events:
        match event:
            case Assigned(at, partitions):
                for partition in partitions - since.keys():
                    since[partition] = at
            case Revoked(at, partitions) | Lost(at, partitions):
                spells += [(partition, since.pop(partition), at) for partition in partitions & since.keys()]
    end = life.killed_at or _FOREVER
    return [*spells, *((partition, start, end) for partition, start in since.items())]


def misassigned(generations: Iterable[Generation], partitions: int) -> list[str]:
    """By the coordinator's records: a generation with members gives each partition to one, and fairly."""
    problems = []
    for generation in generations:
        owned = sorted(partition for _, given in generation.owners for partition in given)
        if generation.owners and not is_blank(generation) and owned != list(range(partitions)):
            problems.append(f"generation {generation.number} gives partitions {owned}")
        sizes = {len(given) for _, given in generation.owners}
        if sizes and max(sizes) - min(sizes) > 1:
            problems.append(f"generation {generation.number} gives between {min(sizes)} and {max(sizes)} partitions")
    return problems


def given_twice(generations: Iterable[Generation]) -> list[str]:
    """By the coordinator's records: a partition left out of a cooperative generation is being revoked (KIP-429)."""
    problems = []
    for generation in generations:
        owned = sorted(partition for _, given in generation.owners for partition in given)
        if len(set(owned)) < len(owned):
            problems.append(f"generation {generation.number} gives partitions {owned}")
    return problems


def is_blank(generation: Generation) -> bool:
    """Nobody is given anything: kafka-python and librdkafka may lead before they have heard of the topic.

    They start the next generation as soon as they have; a leader that knows the topic gives away all of it.
    """
    return bool(generation.owners) and not any(given for _, given in generation.owners)


def generations_going_back(generations: Sequence[Generation]) -> list[str]:
    """A generation's number only grows; the record of one may be written again."""
    return [
        f"generation {after.number} follows {before.number}"
        for before, after in itertools.pairwise(generations)
        if after.number < before.number
    ]


def commits_going_back(commits: Mapping[int, Sequence[int]]) -> list[str]:
    """By the coordinator's records."""
    return [
        f"partition {partition}: {after} was committed after {before}"
        for partition, offsets in commits.items()
        for before, after in itertools.pairwise(offsets)
        if after < before
    ]


def unread(lives: Iterable[Life], ends: Mapping[int, int]) -> list[str]:
    """Records that were written and that no member was given."""
    read = _readers(lives)
    return [
        f"nobody read partition {partition} at offset {offset}"
        for partition, end in ends.items()
        for offset in range(end)
        if offset not in read[partition]
    ]


def read_again(lives: Iterable[Life]) -> list[str]:
    """Records that came twice though who had them first was neither killed nor put out of the group.

    Each member commits what it read before it reads on or gives a partition up, so nobody else should see it.
    """
    lives = list(lives)
    unlucky = {life.name for life in lives if life.killed_at or any(isinstance(event, Lost) for event in life.events)}
    return [
        f"partition {partition} at offset {offset}: read by {' and then by '.join(names)}"
        for partition, offsets in _readers(lives).items()
        for offset, names in sorted(offsets.items())
        if any(name not in unlucky for name in names[:-1])
    ]


def _readers(lives: Iterable[Life]) -> dict[int, dict[int, list[str]]]:
    """Return the readers of each offset of each partition, in order of time."""
    reads = sorted(
        ((event, life.name) for life in lives for event in life.events if isinstance(event, Read)),
        key=lambda pair: pair[0].at,
    )
    readers: dict[int, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for read, name in reads:
        for span in read.spans:
            for offset in range(span.first, span.last + 1):
                readers[span.partition][offset].append(name)
    return readers


def wrong_records(lives: Iterable[Life]) -> list[str]:
    """Return the errors that the members themselves noticed."""
    return [f"{life.name}: {event.what}" for life in lives for event in life.events if isinstance(event, Wrong)]
