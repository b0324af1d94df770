"""Judge a history as Jepsen's tests of Kafka do: each check returns a sentence per violation.

Every partition has one producer, which numbers its values from 0, and every group of committers one committer, which
counts up. So what a log or a commit may be follows from what was sent and what was acknowledged.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.history import Entry, read_history
from tests.chaos.invariants import violations
from tests.chaos.rewrites import rewrites

History = Sequence[Entry]
_BEGINS_AGAIN = "kafkajs-"
_BEGINS_TWICE = "librdkafka-"
_NOTICED_MS = 5_000
_CLOCKS_MS = 50
"""By so much the clocks of the processes may differ."""
_WHOLE_TIME_MS = 2_400
"""Shortest time, but for 100 ms, in which a member may connect again whose process may not be gone."""
_HANGING = ("stand_still", "pause", "slow_down")
_HANGS_MS = 3_000
"""Longest time for which a broker that was made to hang answers nothing, unless others have taken over."""
_COURSE = 6
"""Number of entries that a sentence on a member's way through a partition lists."""
_RECORD = re.compile(r"partition (\d+) has '\d+:(\d+)' at offset (\d+)")
"""What a member says of a record that it did not expect."""


def judge(history: History) -> list[str]:
    """Everything that is wrong with it; empty for a history as it must be."""
    return [problem for check in CHECKS for problem in check(history)]


def remarks(history: History) -> list[str]:
    """Return the facts of the history that are no fault of a broker."""
    rewritten = [
        f"partition {rewrite.partition} has {len(rewrite.offsets)} records twice "
        f"from offset {rewrite.offsets.start} on, by librdkafka's own new epoch: {rewrite.why}"
        for rewrite in rewrites(history)
    ]
    jumped = [f"{jump.what}: its client does so by itself" for jump in _jumps(history) if jump.is_its_own]
    removed = Counter(entry["group"] for entry in _of(history, "removed"))
    told = [f"{group} lost {count} members whose connections had closed" for group, count in sorted(removed.items())]
    told += [
        f"{entry['group']} lost {entry['member']}, and nothing tells which member that was"
        for entry, name in _names_of_removed(history)
        if name is None
    ]
    told += [f"{what}: a broker was made to hang" for what, by_hanging in _removed_alive(history) if by_hanging]
    return [*rewritten, *jumped, *told, *_uptime(history)]


def _uptime(history: History) -> Iterator[str]:
    """Say how much of the time a gateway was up, if there was one."""
    starts = [entry["at"] for entry in _of(history, "ready")]
    kills = [entry["at"] for entry in _of(history, "fault") if entry["what"] == "kill_gateway"]
    if kills:
        # The time after the last start is no part of it: nothing is killed any more when the run ends.
        up, since = sum(killed - ready for ready, killed in zip(starts, kills, strict=False)), starts[0]
        part = up / (starts[-1] - since) if starts[-1] > since else 1.0
        yield f"the gateway was killed {len(kills)} times, and up for {part:.0%} of the time"


def lost_writes(history: History) -> Iterable[str]:
    """An acknowledged record is in the log at the offset that the broker returned."""
    logs = _logs(history)
    for entry in _of(history, "acked"):
        values, offset = logs.get(entry["partition"]), entry["offset"]
        if values is not None and (offset >= len(values) or values[offset] != entry["value"]):
            found = values[offset] if offset < len(values) else "nothing"
            yield f"partition {entry['partition']} lost {entry['value']}: offset {offset} holds {found}"


def duplicates(history: History) -> Iterable[str]:
    """Producers are idempotent: however often one sends a value, it is there once, but for what `rewrites` tells."""
    excused = _excused(history)
    for partition, values in _logs(history).items():
        there = (value for offset, value in enumerate(values) if (partition, offset) not in excused)
        for value, count in Counter(there).items():
            if count > 1:
                yield f"partition {partition} has {value} {count} times"


def inventions(history: History) -> Iterable[str]:
    """A log holds what was sent."""
    sent: dict[int, set[int]] = defaultdict(set)
    for entry in _of(history, "sent"):
        sent[entry["partition"]].add(entry["value"])
    for partition, values in _logs(history).items():
        for value in sorted(set(values) - sent[partition]):
            yield f"partition {partition} has {value}, which nobody sent"


def disorder(history: History) -> Iterable[str]:
    """A producer's values are in the log in the order of sending, and are acknowledged in that order."""
    excused = _excused(history)
    for partition, values in _logs(history).items():
        there = (value for offset, value in enumerate(values) if (partition, offset) not in excused)
        for before, after in itertools.pairwise(there):
            if after < before:
                yield f"partition {partition} has {after} behind {before}"
    last: dict[int, int] = {}
    for entry in _of(history, "acked"):
        partition, offset = entry["partition"], entry["offset"]
        if offset <= last.get(partition, -1):
            yield f"partition {partition} acknowledged offset {offset} after {last[partition]}"
        last[partition] = offset


def jumps(history: History) -> Iterable[str]:
    """From when a member is assigned a partition until it gives it up it is given offset after offset.

    It expects to find each value at the offset of its number. Where the log has another one there, it was given the
    right one: what is wrong with the log is for other checks.
    """
    logs = _logs(history)
    yield from (jump.what for jump in _jumps(history) if not jump.is_its_own)
    for entry in _of(history, "wrong"):
        named = _RECORD.fullmatch(entry["what"])
        partition, value, offset = map(int, named.groups()) if named else (-1, -1, -1)
        if logs.get(partition, [])[offset : offset + 1] != [value]:
            yield f"{entry['member']}: {entry['what']}"


@dataclass(frozen=True, slots=True)
class _Jump:
    """A member was given another offset than the next one."""

    what: str
    is_its_own: bool
    """Whether its client is known to go back so by itself; none may skip anything."""


def _jumps(history: History) -> Iterator[_Jump]:
    """Find those that a client makes by itself, too.

    kafkajs joins its group again when the leader of a partition changes, tells its application nothing of it, and
    begins where the group committed.

    librdkafka (2.16.0) asks again for the first offset of a partition that it has given up, if the answer to an
    earlier ListOffsets is outdated ("outdated offset response: (re)starting offset query timer" with debug=topic). If
    the partition is assigned to it meanwhile, it is fetched from two places one after the other: from the first
    offset, and from where the group committed.
    """
    commits = {(entry["group"], entry["partition"]): entry["values"] for entry in _of(history, "commits")}
    following: dict[tuple[str, int], int] = {}
    begun_again: set[tuple[str, int]] = set()
    for index, entry in enumerate(history):
        match entry["kind"]:
            case "assigned" | "revoked" | "lost":
                for partition in entry["partitions"]:
                    following.pop((entry["member"], partition), None)
                    begun_again.discard((entry["member"], partition))
            case "read":
                for partition, first, last in entry["spans"]:
                    who = entry["member"]
                    place = who, partition
                    expected = following.get(place, first)
                    if first != expected:
                        before = _course(history[:index], who, partition)
                        begins = (0, *commits.get((entry["group"], partition), ()))
                        twice = who.startswith(_BEGINS_TWICE) and first in begins and place not in begun_again
                        yield _Jump(
                            f"{who} was given offset {first} of partition {partition} after {expected - 1}{before}",
                            first < expected and (who.startswith(_BEGINS_AGAIN) or twice),
                        )
                        begun_again.add(place)
                    following[place] = last + 1


def _course(history: History, member: str, partition: int) -> str:
    """Return in words what that member said last of that partition: a failure elsewhere leaves nothing else behind."""
    said = []
    for entry in history:
        if entry.get("member") == member:
            spans = [f"{first} to {last}" for number, first, last in entry.get("spans", ()) if number == partition]
            if spans or partition in entry.get("partitions", ()):
                said.append(f"{' '.join((entry['kind'], *spans))} at {entry['at']}")
    return f" ({', '.join(said[-_COURSE:])})" if said else ""


def unread(history: History) -> Iterable[str]:
    """Each group was given all that is in the log."""
    logs = _logs(history)
    read: dict[str, dict[int, set[int]]] = {}
    for entry in _of(history, "read"):
        of_group = read.setdefault(entry["group"], defaultdict(set))
        for partition, first, last in entry["spans"]:
            of_group[partition].update(range(first, last + 1))
    for group, partitions in read.items():
        for partition, values in logs.items():
            missing = set(range(len(values))) - partitions[partition]
            if missing:
                yield f"{group} never read partition {partition} at {min(missing)}, nor {len(missing) - 1} others"


def vanished_commits(history: History) -> Iterable[str]:
    """A look finds what was acknowledged before it began, or what was sent since."""
    sent: dict[str, int] = {}
    acknowledged: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for entry in history:
        match entry["kind"]:
            case "committing":
                sent[entry["group"]] = entry["value"]
            case "committed":
                acknowledged[entry["group"]].append((entry["at"], entry["value"]))
            case "found":
                group, value = entry["group"], entry["value"]
                least = max((offset for at, offset in acknowledged[group] if at < entry["since"]), default=-1)
                if not least <= value <= sent.get(group, -1):
                    yield f"{group} stands at {value}: {least} was acknowledged, {sent.get(group, -1)} sent last"


def commits_going_back(history: History) -> Iterable[str]:
    """A new owner continues at the group's offset: in the coordinator's log, commits only increase."""
    for entry in _of(history, "commits"):
        for before, after in itertools.pairwise(entry["values"]):
            if after < before:
                yield f"{entry['group']} committed {after} of partition {entry['partition']} after {before}"


def two_owners(history: History) -> Iterable[str]:
    """In the coordinator's records: no generation gives a partition to two, none is two assignments."""
    known: dict[tuple[str, int], dict[str, list[int]]] = {}
    last: dict[str, int] = {}
    for entry in _of(history, "generation"):
        group, number, owners = entry["group"], entry["number"], entry["owners"]
        for partition, count in Counter(itertools.chain.from_iterable(owners.values())).items():
            if count > 1:
                yield f"generation {number} of {group} gives partition {partition} to {count}"
        if number < last.get(group, number):
            yield f"generation {number} of {group} follows {last[group]}"
        last[group] = number
        if any(owners.values()) and known.setdefault((group, number), owners) != owners:
            yield f"generation {number} of {group} is two different assignments"
    for entry in _of(history, "epochs"):
        yield from (f"{entry['group']}: {problem}" for problem in entry["problems"])


def owned_twice(history: History) -> Iterable[str]:
    """By the members' own word and clock: nobody begins before the last owner said that it stopped.

    One that lost its partitions found out late, as it may, and one that was killed said nothing. A hasty one tells the
    coordinator what it owns before its application has what it was given last: of those `two_owners` alone tells.
    """
    spells: dict[tuple[str, int], list[tuple[int, int, str]]] = defaultdict(list)
    since: dict[tuple[str, str, int], int] = {}
    killed: set[str] = set()
    for entry in history:
        match entry["kind"]:
            case "assigned" if not entry.get("hasty"):
                for partition in entry["partitions"]:
                    since.setdefault((entry["group"], entry["member"], partition), entry["at"])
            case "revoked" | "lost":
                for partition in entry["partitions"]:
                    begun = since.pop((entry["group"], entry["member"], partition), None)
                    if begun is not None and entry["kind"] == "revoked":
                        spells[entry["group"], partition].append((begun, entry["at"], entry["member"]))
            case "killed":
                killed.add(entry["member"])
    for (group, member, partition), begun in since.items():
        if member not in killed:
            spells[group, partition].append((begun, 1 << 62, member))
    for (group, partition), held in spells.items():
        held.sort()
        for (_, until, before), (begun, _, after) in itertools.pairwise(held):
            if begun < until and before != after:
                yield f"{group}: {after} had partition {partition} before {before} gave it up"


def false_removals(history: History) -> Iterable[str]:
    """A broker that takes a process for gone, and removes its member early, is right: it was killed, or left.

    One that lives may be removed if the broker that it asks for its coordinator does not answer (docs/prompt.md).
    """
    return (what for what, by_hanging in _removed_alive(history) if not by_hanging)


def _removed_alive(history: History) -> Iterator[tuple[str, bool]]:
    """Find living members that were removed early, and whether a broker that hangs may be why."""
    going: dict[str, int] = {}
    for entry in history:
        if entry["kind"] in ("going", "killed", "ended"):
            # Of one that ended by itself the storm learns later.
            noticed = _NOTICED_MS if entry["kind"] == "ended" else _CLOCKS_MS
            going.setdefault(entry["member"], entry["at"] - noticed)
    early = {entry["id"] for entry in _of(history, "waited") if entry["ms"] < _WHOLE_TIME_MS}
    for entry, name in _names_of_removed(history):
        if entry["id"] in early and name is not None and going.get(name, 1 << 62) > entry["since"]:
            what = f"{entry['group']} lost {name}, whose connection closed at {entry['since']}, and it lived"
            yield what, _hangs(history, entry)


def _hangs(history: History, removed: Entry) -> bool:
    """Return whether a broker was made to hang shortly before the removal."""
    return any(
        entry["what"] in _HANGING and entry["at"] <= removed["at"] and removed["since"] - entry["at"] < _HANGS_MS
        for entry in _of(history, "fault")
    )


def _names_of_removed(history: History) -> Iterator[tuple[Entry, str | None]]:
    """Yield each removal with the member's name; None if its coordinator knew only an ID that does not contain it.

    After a failover a coordinator knows only the IDs of some members. Those of classic members begin with their client
    ID.
    """
    names = {entry["member"] for entry in history if "member" in entry and entry["kind"] != "removed"}
    for entry in _of(history, "removed"):
        yield entry, next((name for name in names if f"{entry['member']}-".startswith(f"{name}-")), None)


def stuck(history: History) -> Iterable[str]:
    """After all faults, everything sent is acknowledged and every group reaches the end of the log."""
    for entry in history:
        if entry["kind"] in ("stuck", "failed"):
            yield f"{entry.get('group') or entry.get('producer') or 'the cluster'}: {entry['what']}"


CHECKS: Sequence[Callable[[History], Iterable[str]]] = (
    lost_writes,
    duplicates,
    inventions,
    disorder,
    jumps,
    unread,
    vanished_commits,
    commits_going_back,
    two_owners,
    owned_twice,
    false_removals,
    stuck,
    violations,
)


def _of(history: History, kind: str) -> Iterable[Entry]:
    return (entry for entry in history if entry["kind"] == kind)


def _excused(history: History) -> set[tuple[int, int]]:
    return {(rewrite.partition, offset) for rewrite in rewrites(history) for offset in rewrite.offsets}


def _logs(history: History) -> dict[int, list[int]]:
    return {entry["partition"]: entry["values"] for entry in _of(history, "log")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the history of the file that the command line names: 0 if nothing is wrong with it, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.judge",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("file", type=Path, help="history.jsonl of a storm")
    given = parser.parse_args(arguments)
    try:
        history = list(read_history(given.file))
    except (OSError, ValueError) as unreadable:
        parser.error(f"{given.file} is no history: {unreadable}")
    problems = judge(history)
    for problem in problems:
        print(problem)
    for remark in remarks(history):
        print(remark)
    print(f"{len(history)} entries, {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
