"""How much of the truth `kohort watch` finds in the log of Apache Kafka, under the laboratory's scenarios.

    python bench/watch_truth.py [--clients java,librdkafka,kohort] [--protocols eager,cooperative,consumer]

The truth about rebalances and their causes is Apache Kafka's own log; about owners and dark times, it
is what the members print. Beside the watcher, a poller asks the admin APIs every 15 s, as exporters do.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from kohort import Admin
from kohort.errors import ErrorCode, KafkaError, KohortError
from kohort.group_events import Cause
from kohort.lab import (
    NOBODY,
    PROTOCOLS,
    QUICK_START,
    SCENARIOS,
    ApacheKafka,
    Assigned,
    Dark,
    Event,
    LabBroker,
    LabGroup,
    Outcome,
    Processing,
    ScenarioRun,
    Trial,
    prepare,
    running_kafka,
)
from kohort.model import Millis
from kohort.recorder import PartitionChange, RebalanceRecord
from kohort.watch import Live, LiveEvent, Rebalanced, Watching

CLIENTS = ("java", "librdkafka", "kohort")
SMALL = ("bounce", "scale-out", "crash", "partitions")
POLL_S = 15.0
_LOGGER = "-Dorg.slf4j.simpleLogger"
LOG = (
    f"{_LOGGER}.log.org.apache.kafka.coordinator.group=info",
    f"{_LOGGER}.showDateTime=true",
    f"{_LOGGER}.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)
_SESSION_MS, _HEARTBEAT_MS = 6_000, 1_000
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "500",
    "group.consumer.session.timeout.ms": str(_SESSION_MS),
    "group.consumer.min.session.timeout.ms": str(_SESSION_MS),
    "group.consumer.heartbeat.interval.ms": str(_HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(_HEARTBEAT_MS),
}


# -- the truth


@dataclass(frozen=True, slots=True)
class Step:
    """Rebalance of a classic group, or new epoch of a consumer group, as Apache Kafka logged it."""

    number: int
    """Generation or group epoch."""
    causes: frozenset[str]
    """Values of Cause that fit the reasons in the log."""
    at: Millis | None = None
    """Time of its line in the log, if the line has one."""


_GONE, _JOINED = {Cause.MEMBER_GONE.value}, {Cause.MEMBER_JOINED.value, Cause.FIRST_MEMBER.value}
_REASONS: tuple[tuple[str, set[str]], ...] = (
    (r"client reason: need to revoke partitions", {Cause.OWNED_CHANGED.value}),
    (r"cached metadata has changed|client reason: (topic|metadata)", {Cause.TOPICS_CHANGED.value}),
    (r"on LeaveGroup|leaving|left the (consumer )?group|heartbeat expiration|session expired|session timed out", _GONE),
    (r"Adding new member|joined the (consumer )?group|joins the consumer group", _JOINED),
    (r"ubscription metadata|metadata hash", {Cause.TOPICS_CHANGED.value}),
    (
        r"Updating metadata for member|leader .* re-?joining|Leader rejoin",
        {Cause.OWNED_CHANGED.value, Cause.TOPICS_CHANGED.value},
    ),
)


def causes_of(line: str) -> set[str]:
    """Return the causes that fit a line of the broker's log."""
    return next((causes for pattern, causes in _REASONS if re.search(pattern, line)), set())


def steps_of(lines: Iterable[str], group: str) -> list[Step]:
    """Return the group's rebalances from the broker's log."""
    steps: dict[int, Step] = {}
    causes: set[str] = set()
    for line in lines:
        if group not in line:
            continue
        # A generation without an assignment was abandoned: its rebalance goes on in the next one.
        done = re.search(r"for generation (\d+)\. The group has|with generation (\d+) is now empty", line)
        bumped = re.search(r"[Bb]ump(?:ed|ing)?(?: the)? group epoch(?: to| from \d+ to)? (\d+)", line)
        found = done or bumped
        if found is None:
            causes |= causes_of(line)
            continue
        number = int(next(each for each in found.groups() if each))
        if bumped and not causes:
            causes = {Cause.TOPICS_CHANGED.value}
        steps[number] = Step(number, frozenset(causes), time_of(line))
        causes = set()
    return list(steps.values())


def time_of(line: str) -> Millis | None:
    """Return the time of a line of the broker's log, if the line has one."""
    try:
        return round(1000 * datetime.fromisoformat(line.split(" ", 1)[0]).timestamp())
    except ValueError:
        return None


def without_rebalance(dark: Dark, steps: Iterable[Step], clock: int) -> bool:
    """Return whether a member stopped and went on although the group did not rebalance.

    A follower that joins a stable group again with the same subscription gets the present generation
    back. An eager member stops for it, and the coordinator writes and logs nothing.
    """
    begin, end = ((at + clock) / 1e6 for at in (dark.begin, dark.end))
    return dark.before == dark.after and not any(step.at is None or begin <= step.at <= end for step in steps)


def dark_times(outcome: Outcome) -> list[Dark]:
    """Return the times without a reader between two readers, from the first trigger on."""
    processing = Processing(outcome.triggers)
    for event in sorted(outcome.events, key=lambda event: event.at):
        processing.handle(event)
    begin = outcome.triggers[0].at
    return [dark for dark in processing.dark if dark.end >= begin and NOBODY not in (dark.before, dark.after)]


def owners_over_time(events: Sequence[Event]) -> dict[int, list[str]]:
    """Return the owners of each partition in turn, by what the members printed."""
    found: dict[int, list[str]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event.at):
        if isinstance(event, Assigned):
            for partition in event.partitions:
                if found[partition][-1:] != [event.member]:
                    found[partition].append(event.member)
    return found


# -- what the watcher found


def found_owners(records: Iterable[RebalanceRecord]) -> dict[int, list[str]]:
    """Return the owners of each partition in turn, by the records."""
    found: dict[int, list[str]] = defaultdict(list)
    names: dict[str, str] = {}
    for record in records:
        names |= {member.member_id: member.client_id for member in record.members()}
        for change in record.partitions:
            # A record that covers several epochs has the last handover of each partition, with its owner before.
            for owner in (change.previous_owner, change.owner):
                if owner is not None and found[change.partition][-1:] != [names[owner]]:
                    found[change.partition].append(names[owner])
    return found


class Observing:
    """Follower of a cluster's log, and a poller of its admin APIs, in a thread."""

    def __init__(self, bootstrap: str) -> None:
        self.records: dict[tuple[str, int, Millis], RebalanceRecord] = {}
        self.polls: dict[str, list[object]] = defaultdict(list)
        """What each poll of a group returned."""
        self._rounds = 0
        self._bootstrap = bootstrap
        self._ends = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="watching")

    def __enter__(self) -> Observing:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()
        if self._problem is not None:
            raise self._problem

    def of(self, group: str) -> list[RebalanceRecord]:
        """Return the group's records in the order of their ends."""
        return sorted(
            (record for record in list(self.records.values()) if record.group_id == group),
            key=lambda record: (record.ended_at, record.generation),
        )

    def wait_for_poll(self) -> None:
        """Wait until a poll that begins after this call is complete."""
        rounds = self._rounds
        while self._rounds < rounds + 1 and self._thread.is_alive():
            time.sleep(0.1)

    def _run(self) -> None:
        try:
            asyncio.run(self._watch())
        except (KohortError, OSError) as problem:
            self._problem = problem

    async def _watch(self) -> None:
        live = Live()

        def sink(event: LiveEvent, _now: Millis) -> None:
            if isinstance(event, Rebalanced):
                record = event.record
                self.records[record.group_id, record.generation, record.ended_at] = record

        live.subscribe(sink)
        polling = asyncio.create_task(self._poll())
        try:
            async with Watching({"bootstrap_servers": self._bootstrap}, history_ms=600_000, live=live):
                await asyncio.to_thread(self._ends.wait)
        finally:
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

    async def _poll(self) -> None:
        async with Admin(bootstrap_servers=self._bootstrap) as admin:
            while True:
                try:
                    for listed in await admin.list_groups():
                        described = (await admin.describe_groups([listed.group_id]))[listed.group_id]
                        owned = {(member.member_id, member.assignment) for member in described.members}
                        self.polls[listed.group_id].append((described.state, described.epoch, frozenset(owned)))
                except KafkaError as problem:
                    if problem.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                        raise
                self._rounds += 1
                await asyncio.sleep(POLL_S)


# -- the comparison


@dataclass(slots=True)
class Row:
    """Result of one client and protocol."""

    client: str
    protocol: str
    rebalances: int = 0
    found: int = 0
    explained: int = 0
    """Rebalances whose cause the broker logged."""
    causes: int = 0
    wrong: list[str] = field(default_factory=list)
    partitions: int = 0
    movers: int = 0
    dark: int = 0
    """Dark times in the truth, those of rebalances."""
    unwritten: int = 0
    """Dark times of members that joined again while nothing was rebalanced."""
    errors_ms: list[float] = field(default_factory=list)
    """Errors of the dark times that were found."""
    details: list[str] = field(default_factory=list)
    beyond: int = 0
    """Number of dark times whose error is larger than `dark_error_ms`."""
    polled: int = 0
    """Changes that the poller noticed."""

    def compare(self, outcome: Outcome, steps: Sequence[Step], records: Sequence[RebalanceRecord], clock: int) -> None:
        """Add one trial. `clock` is the wall clock minus the monotonic clock, in nanoseconds."""
        where = f"{self.client} {self.protocol} {outcome.trial.scenario}"
        self._compare_steps(where, steps, records)
        truth, found = owners_over_time(outcome.events), found_owners(records)
        self.partitions += len(truth)
        for partition, owners in truth.items():
            if found.get(partition) == owners:
                self.movers += 1
            else:
                self.wrong.append(f"{where}: partition {partition} had {owners}, found {found.get(partition)}")
        names = {member.member_id: member.client_id for record in records for member in record.members()}
        known = [
            (record, change)
            for record in records
            for change in record.partitions
            if change.dark_ms is not None and not record.was_empty
        ]
        for dark in dark_times(outcome):
            if without_rebalance(dark, steps, clock):
                self.unwritten += 1
            else:
                self.dark += 1
                self._compare_dark(where, dark, known, names, clock)

    def _compare_steps(self, where: str, steps: Sequence[Step], records: Sequence[RebalanceRecord]) -> None:
        last = 0
        numbers = [record.generation for record in records]
        for step in steps:
            self.rebalances += 1
            record = next((record for record in records if record.generation >= step.number), None)
            if record is None or (self.protocol != "consumer" and record.generation != step.number):
                self.wrong.append(f"{where}: {step} was not found in {numbers}")
                continue
            self.found += 1
            self.explained += bool(step.causes)
            told = {trigger.cause for trigger in record.triggers}
            if told & step.causes:
                self.causes += 1
            elif step.causes:
                self.wrong.append(f"{where}: {step.number} had {set(step.causes)}, found {told or 'no cause'}")
            last = step.number
        self.wrong += [f"{where}: {number} was found and did not happen" for number in numbers if number > last]

    def _compare_dark(
        self,
        where: str,
        dark: Dark,
        known: Sequence[tuple[RebalanceRecord, PartitionChange]],
        names: Mapping[str, str],
        clock: int,
    ) -> None:
        begin, end = ((at + clock) / 1e6 for at in (dark.begin, dark.end))
        same = [
            change
            for _, change in known
            if change.partition == dark.partition
            and names.get(change.owner or "") == dark.after
            and (change.revoked_at or 0) <= end
            and (change.first_read_at or 0) >= begin
        ]
        if not same:
            self.wrong.append(
                f"{where}: dark time of {dark.partition} ({dark.before} to {dark.after}) is unknown:"
                f" {end - begin:.0f} ms"
            )
            return
        change = min(same, key=lambda change: abs((change.first_read_at or 0) - end))
        error = (change.dark_ms or 0) - (end - begin)
        self.errors_ms.append(error)
        self.details.append(
            f"{where}: {dark.partition} ({dark.before} to {dark.after}) was dark from {begin:.0f} to {end:.0f},"
            f" found {change.revoked_at} to {change.first_read_at}, assigned {change.assigned_at}: {error:+.0f}"
        )
        if abs(error) > (change.dark_error_ms or 0) + 100:
            self.beyond += 1
            self.wrong.append(
                f"{where}: {dark.partition} ({dark.before} to {dark.after}) was dark for {end - begin:.0f} ms,"
                f" found {change.dark_ms} ms within {change.dark_error_ms}"
            )

    def cells(self) -> list[str]:
        errors = sorted(abs(error) for error in self.errors_ms)
        return [
            self.client,
            self.protocol,
            f"{self.found}/{self.rebalances}",
            f"{self.causes}/{self.explained}",
            f"{self.movers}/{self.partitions}",
            f"{len(errors)}/{self.dark}",
            str(self.unwritten),
            f"{statistics.median(errors):.0f}" if errors else "-",
            f"{errors[-1]:.0f}" if errors else "-",
            str(self.beyond),
            f"{max(0, self.rebalances - self.polled)}/{self.rebalances}",
        ]


HEAD = [
    "client",
    "protocol",
    "rebalances",
    "causes",
    "movers",
    "dark times",
    "unwritten",
    "median",
    "worst",
    "beyond",
    "poller misses",
]


def run_case(kafka: ApacheKafka, client: str, protocol: str, scenarios: Sequence[str], options: Options) -> Row:
    """Run the scenarios with one client and protocol, and compare."""
    row = Row(client, protocol)
    with Observing(kafka.bootstrap) as watching:
        for scenario in scenarios:
            _run_scenario(kafka, watching, row, scenario, options)
    return row


def _run_scenario(kafka: ApacheKafka, watching: Observing, row: Row, scenario: str, options: Options) -> None:
    trial = Trial(
        scenario=scenario,
        broker="kafka",
        client=row.client,
        protocol=row.protocol,
        members=options.members,
        partitions=options.partitions,
        commit_ms=options.commit_ms,
        settle_s=40.0,
    )
    settings = replace(
        prepare(trial, kafka.bootstrap), session_ms=_SESSION_MS, heartbeat_ms=_HEARTBEAT_MS, metadata_ms=2_000
    )
    with tempfile.TemporaryDirectory(prefix="watch-truth-") as logs:
        group = LabGroup(row.client, settings, trial.partitions, trial.tick_ms, Path(logs), trial.settle_s, None)
        try:
            group.begin_load()
            SCENARIOS[scenario](run := ScenarioRun(trial, LabBroker(kafka.bootstrap), group, settings.topic))
            watching.wait_for_poll()  # it sees the result; meanwhile, the last owners commit
            time.sleep(max(0.0, options.commit_ms / 1000 + 1.0))
            outcome = run.outcome()
            steps = steps_of(kafka.process.stderr, settings.group)
            _await(watching, settings.group, steps)
            clock = time.time_ns() - time.monotonic_ns()
            row.compare(outcome, steps, watching.of(settings.group), clock)
            row.polled += _changes(watching.polls[settings.group])
        finally:
            group.close()
    if options.dump:
        _dump(kafka, settings.group, watching)
        print(*row.details, sep="\n")


def _await(watching: Observing, group: str, steps: Sequence[Step]) -> None:
    """Wait until the last rebalance is found, and its dark times are: a busy machine commits late."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline:
        records = watching.of(group)
        if steps and records and records[-1].generation >= steps[-1].number:
            last = records[-1]
            if last.was_empty or all(change.dark_ms is not None for change in last.partitions):
                return
        time.sleep(0.1)


def _changes(polls: Sequence[object]) -> int:
    """Return how often a poll differed from the one before; the first sight of a group counts as well."""
    return sum(one != other for one, other in zip(polls, [None, *polls], strict=False))


def _dump(kafka: ApacheKafka, group: str, watching: Observing) -> None:
    for line in kafka.process.stderr:
        if group in line:
            print("broker:", line[:400])
    for record in watching.of(group):
        told = [(trigger.cause, trigger.member_id) for trigger in record.triggers]
        print("found:", record.generation, record.ended_at, told)
        for change in record.partitions:
            print(
                "  ", change.partition, change.previous_owner, "->", change.owner, change.dark_ms, change.dark_error_ms
            )


@dataclass(frozen=True, slots=True)
class Options:
    """Sizes."""

    members: int = 3
    partitions: int = 6
    commit_ms: int = 2_000
    dump: bool = False


def table(rows: Iterable[Row]) -> Iterator[str]:
    """Yield the lines of the table."""
    cells = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEAD))]
    for line in cells:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="names, separated by commas")
    parser.add_argument("--protocols", default=",".join(PROTOCOLS), help="names, separated by commas")
    parser.add_argument("--scenarios", default=",".join(SMALL), help="names, separated by commas")
    parser.add_argument("--members", type=int, default=3, help="of each group (default 3)")
    parser.add_argument("--partitions", type=int, default=6, help="of each topic (default 6)")
    parser.add_argument("--commit-ms", type=int, default=2_000, help="milliseconds between commits (default 2,000)")
    parser.add_argument("--dump", action="store_true", help="print what the broker logged and what was found")
    given = parser.parse_args()
    options = Options(given.members, given.partitions, given.commit_ms, dump=given.dump)
    rows = []
    with running_kafka(SETTINGS, jvm=(*QUICK_START, *LOG)) as kafka:
        for client in given.clients.split(","):
            for protocol in given.protocols.split(","):
                row = run_case(kafka, client, protocol, given.scenarios.split(","), options)
                rows.append(row)
                print(*row.wrong, "  ".join(row.cells()), sep="\n", file=sys.stderr, flush=True)
    print(f"Times in ms; commits every {options.commit_ms} ms; the poller asks every {POLL_S:.0f} s.")
    print(*table(rows), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
