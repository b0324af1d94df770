"""A trial's parameters and its outcome."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from kohort import blocking
from kohort.client import NewTopic
from kohort.errors import KohortError
from kohort.lab.events import Event, MalformedEvent, line, parse
from kohort.lab.lab_group import LabGroup, Trigger
from kohort.lab.order import Order
from kohort.lab.queries import Answered

STORES = ("memory", "rocksdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Parameters of one experiment with one broker, client and protocol."""

    scenario: str
    broker: str
    client: str
    protocol: str
    repetition: int = 1
    members: int = 10
    partitions: int = 50
    tick_ms: int = 50
    """Interval between records per partition."""
    restore_ms: int = 0
    """Simulated time to restore each new partition."""
    state_keys: int = 0
    """Number of keys in the changelog of each partition; 0 means no changelog."""
    store: str = "memory"
    """Store of the members' counts, one of STORES."""
    commit_ms: int = 5_000
    gap_ms: int = 0
    """Time between a member's end and its next start."""
    out_of_step: bool = False
    """Whether heartbeats are spread over the interval before each trigger, as after hours without rebalances."""
    rest_ms: int = 3_000
    """Minimum rest before each trigger; up to as much again is added, differently each time.

    A rebalance synchronises heartbeats. If the next trigger always followed after the same time,
    all triggers would meet the same phase of the heartbeats.
    """
    warmup: bool = False
    """Whether a partition moves only to a member that has a copy of its state (KIP-441)."""
    num_standby: int = 0
    """Number of members that copy each partition besides its owner; any number above 0 enables warm-up."""
    max_warmups: int = 2
    """Maximum number of concurrent copies of partitions that are to move."""
    acceptable_lag: int = 100
    """Maximum number of changelog records that a copy may lack to count as caught up.

    Kafka Streams' default of 10,000 suits changelogs of millions: the copies here would count as
    caught up before they begin.
    """
    probing_ms: int = 5_000
    """Interval of reports to the group about copies that moved nothing.

    Kafka Streams has no such reports; it probes every 10 minutes.
    """
    settle_s: float = 60.0
    """Time limit for the group to settle after a trigger."""
    label: str = ""
    """Experiment to which the trial belongs, if one scenario runs in several variants; empty means the scenario."""

    @property
    def is_warm(self) -> bool:
        """Whether partitions are copied before they move."""
        return self.warmup or self.num_standby > 0

    @property
    def title(self) -> str:
        """Name of the experiment, which all its brokers, clients and protocols share."""
        return self.label or self.scenario

    @property
    def name(self) -> str:
        """Name of the file with the outcome, without its suffix."""
        return f"{self.title}-{self.broker}-{self.client}-{self.protocol}-{self.repetition}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """Raw data of a trial."""

    trial: Trial
    triggers: Sequence[Trigger]
    events: Sequence[Event]
    broker_cpu_s: float | None = None
    """CPU time of the broker's process from the first trigger to the end; None if it is not observable."""
    group: str = ""
    """Group ID on the broker."""
    busy: float | None = None
    """Fraction of the machine's CPU time used by all processes, from the first trigger to the end."""
    answered: Answered | None = None
    """Answers to interactive queries since the group settled before the first trigger; None without queries."""

    def save(self, path: Path) -> None:
        """Write the outcome as JSON lines. The file appears only when it is complete."""
        head = {
            "trial": asdict(self.trial),
            "triggers": [asdict(one) for one in self.triggers],
            "broker_cpu_s": self.broker_cpu_s,
            "group": self.group,
            "busy": self.busy,
            "answered": None if self.answered is None else asdict(self.answered),
        }
        new = path.with_suffix(".new")
        new.write_text("\n".join([json.dumps(head), *map(line, self.events)]) + "\n")
        new.rename(path)

    @classmethod
    def load(cls, path: Path) -> Outcome:
        """Read the result of `save`. Raises KohortError for any other file."""
        try:
            first, *rest = path.read_text().splitlines()
            head = json.loads(first)
            triggers, events = [Trigger.of(one) for one in head["triggers"]], [parse(one) for one in rest]
            answered = Answered(**head["answered"]) if head.get("answered") else None
            trial = Trial(**head["trial"])
            return cls(trial, triggers, events, head["broker_cpu_s"], head["group"], head["busy"], answered)
        except (ValueError, KeyError, TypeError, MalformedEvent) as problem:
            raise KohortError(f"{path} is no trial of this version: remove it, or name another --out.") from problem


def prepare(trial: Trial, bootstrap: str) -> Order:
    """Create the trial's topics, fill its changelog, and return the order for its members.

    Each trial has its own names of topics and group.
    """
    topic = f"lab-{trial.scenario}-{uuid.uuid4().hex[:8]}"
    changelog = f"{topic}-counts" if trial.state_keys else ""
    board = f"{topic}-board" if trial.is_warm else ""
    with blocking.Admin(bootstrap_servers=bootstrap) as admin:
        topics = [NewTopic(topic, trial.partitions)]
        if changelog:
            topics.append(NewTopic(changelog, trial.partitions, configs={"cleanup.policy": "compact"}))
        if board:
            topics.append(NewTopic(board, 1))
        admin.create_topics(topics)
    if changelog:
        _fill(changelog, trial, bootstrap)
    return Order(
        bootstrap=bootstrap,
        group=topic,
        topic=topic,
        name="",
        protocol=trial.protocol,
        restore_ms=trial.restore_ms,
        changelog=changelog,
        commit_ms=trial.commit_ms,
        board=board,
        standbys=trial.num_standby,
        max_warmups=trial.max_warmups,
        acceptable_lag=trial.acceptable_lag,
        probing_ms=trial.probing_ms,
    )


def _fill(changelog: str, trial: Trial, bootstrap: str) -> None:
    with blocking.Producer(bootstrap_servers=bootstrap, linger_ms=20, batch_size=100_000) as producer:
        for number in range(trial.state_keys):
            for partition in range(trial.partitions):
                producer.send(changelog, b"1", key=b"kept-%09d" % number, partition=partition)
        producer.flush()


def group_for(trial: Trial, order: Order, directory: Path) -> LabGroup:
    """Return the trial's group, whose members write their files to `directory`."""
    homes = directory / "state" if trial.store == "rocksdb" else None
    return LabGroup(trial.client, order, trial.partitions, trial.tick_ms, directory, trial.settle_s, homes)
