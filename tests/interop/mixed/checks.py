"""Invariants of a group's history; each check returns a sentence per violation."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from kohort.model import Millis
from tests.interop.mixed.events import Assigned, Committed, Event, Lost, Read, Revoked, Span, Wrong
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


def commits_going_back(commits: Mapping[int, Sequence[int]], lives: Iterable[Life] = ()) -> list[str]:
    """By the coordinator's records. Not what a member commits that has started over; see `_started_over`."""
    anew = [span for life in lives for span in _started_over(life)]
    return [
        f"partition {partition}: {after} was committed after {before}"
        for partition, offsets in commits.items()
        for before, after in itertools.pairwise(offsets)
        if after < before
        and not any(span.partition == partition and span.first < after < before <= span.last + 1 for span in anew)
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

    Each member commits what it read before it reads on or gives a partition up, so nobody else should see it, unless
    the coordinator refused that commit.
    """
    lives = list(lives)
    unlucky = {life.name for life in lives if life.killed_at or any(isinstance(event, Lost) for event in life.events)}
    excused = Counter(
        (life.name, span.partition, offset)
        for life in lives
        for span in (*_given_up_uncommitted(life), *_started_over(life))
        for offset in range(span.first, span.last + 1)
    )
    return [
        f"partition {partition} at offset {offset}: read by {' and then by '.join(names)}"
        for partition, offsets in _readers(lives).items()
        for offset, names in sorted(offsets.items())
        if any(
            name not in unlucky and times > excused[name, partition, offset]
            for name, times in Counter(names[:-1]).items()
        )
    ]


def _given_up_uncommitted(life: Life) -> list[Span]:
    """Return the records whose commits the coordinator refused until the member gave their partition up.

    While a cooperative group rebalances, its members read on, and a commit may arrive with the generation before.
    """
    owed: list[Span] = []
    refused: list[Span] = []
    found = []
    for event in life.events:
        match event:
            case Read(_, spans):
                owed += spans
            case Committed(_, error):
                refused = [*refused, *owed] if error else []
                owed = []
            case Revoked(_, partitions):
                found += [span for span in refused if span.partition in partitions]
                owed, refused = (
                    [span for span in spans if span.partition not in partitions] for spans in (owed, refused)
                )
    return found


def _started_over(life: Life) -> list[Span]:
    """Return what a member of librdkafka read twice of partitions that it kept over a cooperative rebalance.

    It returns to the offset at which it began when they were assigned, although it has committed since (librdkafka
    2.16; one of twelve runs on Apache Kafka 4.3.1 when the machine has ten times more to do than it can).
    """
    if not life.name.startswith("librdkafka"):
        return []
    began: dict[int, int] = {}
    position: dict[int, int] = {}
    rebalanced: set[int] = set()
    """Partitions with records before the last rebalance."""
    found = []
    for event in life.events:
        match event:
            case Assigned(_, partitions):
                rebalanced = position.keys() - partitions
            case Revoked(_, partitions) | Lost(_, partitions):
                for partition in partitions:
                    began.pop(partition, None)
                    position.pop(partition, None)
                rebalanced -= partitions
            case Read(_, spans):
                for partition, first, last in ((span.partition, span.first, span.last) for span in spans):
                    start = began.setdefault(partition, first)
                    if partition in rebalanced and first == start < position[partition]:
                        found.append(Span(partition, first, position[partition] - 1))
                        rebalanced.discard(partition)
                    position[partition] = last + 1
    return found


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
    """Return the errors that the members themselves noticed, and what they were given after a gap in one poll."""
    return [f"{life.name}: {what}" for life in lives for event in life.events for what in _errors(event)]


def _errors(event: Event) -> Iterator[str]:
    match event:
        case Wrong(_, what):
            yield what
        case Read(_, spans):
            following: dict[int, int] = {}
            for span in spans:
                expected = following.get(span.partition, span.first)
                if span.first > expected:
                    yield f"offset {span.first} of partition {span.partition} after {expected - 1}"
                following[span.partition] = span.last + 1
