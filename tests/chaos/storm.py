"""A cluster of three brokers under load and faults, and a history of it that is judged.

    python -m tests.chaos.storm [--minutes 10] [--members 30] [--seed N] [--store files|postgres] [--gateway]
        [--keep DIR]

Members of four libraries in an eager, a cooperative and a consumer group read what three libraries' producers write
with acks=all, while brokers are killed, stopped, stand still, and find their disks full or slow. Members come, leave
and are killed, too. With --gateway, all clients use one gateway, which is killed as well.
`python -m tests.chaos.judge FILE` judges a kept history again.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import confluent_kafka
import confluent_kafka.admin
import confluent_kafka.cimpl

from tests.chaos.behind_gateway import behind_gateway
from tests.chaos.faults import Faults, FaultyDisk
from tests.chaos.history import History, read_history
from tests.chaos.holdings import log_ends, note_holdings
from tests.chaos.judge import judge, remarks
from tests.chaos.load import SENDERS, Committer, NewSender, Producer
from tests.chaos.over_postgres import postgres_site
from tests.interop.kafka import Unavailable
from tests.interop.kohort import kohort
from tests.interop.mixed.events import Assigned, Event, Lost, Read, Revoked, Wrong
from tests.interop.mixed.kinds import KINDS, Choices, Kind, Place
from tests.interop.mixed.member import Member
from tests.interop.mixed.view import GroupWatch
from tests.interop.process import ServerProcess, until

BROKERS = 3
TOPIC = "t"
PARTITIONS = 24
SESSION_MS = 30_000
"""A busy machine must not be taken for a dead member: then two may believe for a while that they own a partition."""

_SETTINGS = {
    "broker.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "9",
    "offsets.topic.segment.bytes": "1000000000",  # the judge reads every commit
    "group.initial.rebalance.delay.ms": "100",
    "group.min.session.timeout.ms": "6000",
}
_PER_S = 40
"""Records of each producer."""
_COMMITTERS = 4
_QUIET_S = 3.0
_REMOVAL = re.compile(r"removing group=\S+ member=(\S+): its connection was closed (\d+) ms ago")
_LOGGED = 5
"""Number of lines of a member's log that are shown with what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Whose members are of these kinds, in turn."""

    name: str
    strategy: str
    kinds: Sequence[str]
    protocol: str = "classic"


GROUPS = (
    Group("eager", "range", ("librdkafka", "kohort", "kafka-python", "aiokafka", "java")),
    Group("cooperative", "cooperative-sticky", ("kohort", "librdkafka", "kafka-python", "java")),
    Group("newer", "uniform", ("librdkafka", "kohort", "librdkafka", "kohort", "java"), protocol="consumer"),
)


class NotedMember(Member):
    """A member whose events are in the history."""

    def __init__(self, kind: Kind, place: Place, directory: Path, history: History) -> None:
        self._history = history
        super().__init__(kind, place, directory)

    def _hear(self, event: Event) -> None:
        super()._hear(event)
        who = {"group": self.place.group, "member": self.name}
        match event:
            case Assigned(at, partitions):
                # librdkafka's heartbeat may still say that it owns nothing when its application is about to be told of
                # what it was given: the coordinator, Apache Kafka's too, takes that for a revocation.
                hasty = self.kind.name == "librdkafka" and self.place.choices.protocol == "consumer"
                self._history.note("assigned", at=at, **who, partitions=sorted(partitions), hasty=hasty)
            case Revoked(at, partitions):
                self._history.note("revoked", at=at, **who, partitions=sorted(partitions))
            case Lost(at, partitions):
                self._history.note("lost", at=at, **who, partitions=sorted(partitions))
            case Read(at, spans):
                self._history.note("read", at=at, **who, spans=[[s.partition, s.first, s.last] for s in spans])
            case Wrong(at, what):
                self._history.note("wrong", at=at, **who, what=what)


@dataclass
class Storm:
    """One run."""

    bootstrap: str
    directory: Path
    history: History
    kinds: Sequence[Kind]
    senders: Sequence[NewSender]
    chance: random.Random
    members: list[NotedMember] = field(default_factory=list)
    _leaving: list[NotedMember] = field(default_factory=list)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def begin(self, count: int, groups: Sequence[Group]) -> None:
        """Make the topic, start members and load."""
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([confluent_kafka.cimpl.NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(30.0)
        self._groups = groups
        for number in range(count):
            group = groups[number % len(groups)]
            self._join(group, number // len(groups))
        self._producers = [
            Producer(new, range(number, PARTITIONS, len(self.senders)), self.bootstrap, TOPIC, _PER_S, self.history)
            for number, new in enumerate(self.senders)
        ]
        self._committers = [Committer(number, self.bootstrap, TOPIC, self.history) for number in range(_COMMITTERS)]

    def churn(self) -> None:
        """End one member and start another of its kind and group; replace members that ended by themselves."""
        self._replace_ended()
        if self.chance.random() < 0.1 and self.members:
            member = self.chance.choice(self.members)
            self.history.note("going", member=member.name)
            if self.chance.random() < 0.5:
                member.kill()
                self._gone(member)
            else:
                member.leave()
                self.members.remove(member)
                self._leaving.append(member)
            self._again(member)

    def end(self) -> None:
        """Let everybody read to the end, and write down what the brokers hold."""
        for producer in self._producers:
            producer.stop()
        for committer in self._committers:
            committer.stop()
        for group in self._groups:
            self._drain(group.name)
        for member in self.members:
            self.history.note("going", member=member.name)
            member.leave()
        for member in (*self.members, *self._leaving):
            member.gone(60.0)
        note_holdings(self.bootstrap, TOPIC, [group.name for group in self._groups], self.history)

    def stop(self) -> None:
        """Nothing is left running."""
        for member in (*self.members, *self._leaving):
            member.kill()

    def _join(self, group: Group, turn: int) -> None:
        here = [kind for kind in self.kinds if kind.name in group.kinds]
        wanted = group.kinds[turn % len(group.kinds)]
        kind = next((kind for kind in here if kind.name == wanted), here[turn % len(here)])
        self._start(kind, group)

    def _start(self, kind: Kind, group: Group) -> None:
        name = f"{kind.name}-{next(self._numbers)}"
        choices = Choices(protocol=group.protocol)
        place = Place(self.bootstrap, group.name, TOPIC, group.strategy, name, SESSION_MS, choices)
        self.members.append(NotedMember(kind, place, self.directory, self.history))

    def _again(self, member: NotedMember) -> None:
        self._start(member.kind, next(group for group in self._groups if group.name == member.place.group))

    def _gone(self, member: NotedMember) -> None:
        member.gone(10.0)
        self.members.remove(member)
        self.history.note("killed", member=member.name)

    def _drain(self, group: str) -> None:
        ends = log_ends(self.bootstrap, TOPIC)
        watch = GroupWatch(self.bootstrap, group)

        def read() -> bool:
            self._replace_ended()
            time.sleep(0.3)  # a look is a request
            committed = watch.committed()
            return all(committed.get((TOPIC, partition), -1) >= end for partition, end in ends.items() if end)

        try:
            until(120.0, f"{group} has read everything", read)
        except AssertionError as error:
            self.history.note("stuck", group=group, what=f"{error}: {watch.committed()} of {ends}")

    def _replace_ended(self) -> None:
        """Somebody has to read what is left."""
        for member in [member for member in self.members if member.ended]:
            self.history.note("ended", member=member.name, what=member.errors[-500:])
            self._gone(member)
            self._again(member)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a run."""

    failovers: int
    problems: list[str]
    remarks: list[str]
    """What is no fault of a broker's."""
    history: Path


class Site(Protocol):
    """A cluster and its faults."""

    @property
    def failovers(self) -> int: ...

    @property
    def bootstrap(self) -> str: ...

    def inject_fault(self) -> None:
        """One fault, and the wait until others have taken over where they must."""
        ...

    def settle(self, brokers: int) -> None:
        """Wait until all brokers are there and lead their shares."""
        ...


NewSite = Callable[[Path, int, Mapping[str, str], random.Random, History], AbstractContextManager[Site]]


@contextmanager
def over_files(
    directory: Path, brokers: int, settings: Mapping[str, str], chance: random.Random, history: History
) -> Iterator[Site]:
    """`kohort cluster` over one directory."""
    disk = FaultyDisk(directory)
    named = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    data = directory / "data"
    command = kohort("cluster", "--brokers", str(brokers), "--data", str(data), "--restart", *named)
    # Its log is long, and the judge's sentences send people to it.
    logged = ["sh", "-c", 'exec "$@" 2>"$0"', str(directory / "cluster.log"), *command]
    cluster = ServerProcess(logged, env=disk.environment)
    try:
        bootstrap = cluster.wait_for(r"^ready (\S+)$", timeout=60.0)[1]
        yield Faults(bootstrap, data, disk, chance, history)
    finally:
        cluster.stop(60.0)


STORES: Mapping[str, NewSite] = {"files": over_files, "postgres": postgres_site}


def run(
    directory: Path,
    seconds: float,
    members: int,
    seed: int,
    report: Callable[[str], None],
    groups: Sequence[Group] = GROUPS,
    senders: Sequence[NewSender] = SENDERS,
    new_site: NewSite = over_files,
) -> Outcome:
    """A whole run in that directory: its history is judged and stays there."""
    chance = random.Random(seed)
    with ExitStack() as stack:
        history = History(directory / "history.jsonl")
        stack.callback(history.close)
        site = stack.enter_context(new_site(directory, BROKERS, _SETTINGS, chance, history))
        storm = Storm(site.bootstrap, directory, history, _kinds(groups, report), senders, chance)
        stack.callback(storm.stop)
        storm.begin(members, groups)
        end, told = time.monotonic() + seconds, time.monotonic()
        while time.monotonic() < end:
            site.inject_fault()
            storm.churn()
            time.sleep(chance.uniform(0.0, 0.7))
            if time.monotonic() - told > 30:
                told = time.monotonic()
                report(f"{site.failovers} failovers, {end - told:.0f} s to go")
        site.settle(BROKERS)
        time.sleep(_QUIET_S)
        storm.end()
        _note_waits(directory / "cluster.log", history)
    path = directory / "history.jsonl"
    entries = list(read_history(path))
    problems = [problem + _logged(problem, directory) for problem in judge(entries)]
    return Outcome(site.failovers, problems, remarks(entries), path)


def _note_waits(log: Path, history: History) -> None:
    """Note how long members had been disconnected that brokers over files removed."""
    if log.is_file():
        for removal in _REMOVAL.finditer(log.read_text(errors="replace")):
            history.note("waited", id=removal[1], ms=int(removal[2]))


def _logged(problem: str, directory: Path) -> str:
    """Return the end of the log of the member that the problem begins with, without lost connections."""
    log = directory / f"{problem.partition(' ')[0]}.stderr"
    lines = log.read_text(errors="replace").splitlines() if log.is_file() else []
    told = [line for line in lines if "|FAIL|" not in line]
    return "".join(f"\n    it logged: {line}" for line in told[-_LOGGED:])


def _kinds(groups: Sequence[Group], report: Callable[[str], None]) -> list[Kind]:
    found = []
    for kind in KINDS:
        if any(kind.name in group.kinds for group in groups):
            try:
                kind.need()
                found.append(kind)
            except Unavailable as missing:
                report(f"without {kind.name}: {missing}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--members", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--store", choices=STORES, default="files", help="what the brokers share")
    parser.add_argument("--gateway", action="store_true", help="put a gateway between clients and brokers, and kill it")
    parser.add_argument("--keep", type=Path, help="keep everything in this new directory, whatever comes out")
    given = parser.parse_args()
    directory = given.keep or Path(tempfile.mkdtemp(prefix="kohort-storm-", dir="/var/tmp"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {given.seed}, in {directory}", flush=True)
    logging.basicConfig(
        filename=directory / "producers.log",
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    outcome = run(
        directory,
        given.minutes * 60,
        given.members,
        given.seed,
        lambda line: print(line, flush=True),
        new_site=behind_gateway(STORES[given.store]) if given.gateway else STORES[given.store],
    )
    for line in (*outcome.problems[:50], *outcome.remarks):
        print(line)
    print(f"{outcome.failovers} failovers, {len(outcome.problems)} violations")
    if outcome.problems or given.keep:
        print(f"kept: {outcome.history}; python -m tests.chaos.judge judges it again")
    else:
        shutil.rmtree(directory)
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
