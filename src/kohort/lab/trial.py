"""One trial: what is asked for, and what came of it."""

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
from kohort.lab.order import Order
from kohort.lab.queries import Answered
from kohort.lab.stage import Stage, Trigger

STORES = ("memory", "rocksdb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One experiment with one broker, client and protocol."""

    scenario: str
    broker: str
    client: str
    protocol: str
    repetition: int = 1
    members: int = 10
    partitions: int = 50
    tick_ms: int = 50
    """One record per partition so often."""
    restore_ms: int = 0
    """Pretended time of restoring each partition that is won."""
    state_keys: int = 0
    """So many keys lie in the changelog of each partition; 0: no changelog."""
    store: str = "memory"
    """Where members keep their counts: one of STORES."""
    commit_ms: int = 5_000
    gap_ms: int = 0
    """Between a member's end and its next start."""
    out_of_step: bool = False
    """Heartbeats are spread over the interval before each trigger, as they are after hours of quiet."""
    rest_ms: int = 3_000
    """How long a group rests before each trigger, and up to as much again, differently each time. A rebalance puts
    heartbeats in step; were the next trigger always as soon after it, all would meet the same phase of them."""
    warmup: bool = False
    """A partition moves only to a member that has a copy of its state (KIP-441)."""
    num_standby: int = 0
    """So many members copy each partition beside its owner; more than none is warm-up, too."""
    max_warmups: int = 2
    """So many copies at most are made at a time for what is to move."""
    acceptable_lag: int = 100
    """A copy with at most so many records of the changelog to go is close behind. Kafka Streams' default of 10,000
    is for changelogs of millions: any of ours would be close behind before it begins."""
    probing_ms: int = 5_000
    """The group is told so often of copies that moved nothing; Kafka Streams, which tells of none, asks in 10 min."""
    settle_s: float = 60.0
    """How long a trigger may take."""
    label: str = ""
    """Which experiment it is a part of, where one scenario is played in several ways; empty: the scenario."""

    @property
    def is_warm(self) -> bool:
        """Whether what is to move is copied first."""
        return self.warmup or self.num_standby > 0

    @property
    def title(self) -> str:
        """What tells it from other experiments with the same brokers, clients and protocols."""
        return self.label or self.scenario

    @property
    def name(self) -> str:
        """Of the file that keeps it."""
        return f"{self.title}-{self.broker}-{self.client}-{self.protocol}-{self.repetition}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trial's raw data."""

    trial: Trial
    triggers: Sequence[Trigger]
    events: Sequence[Event]
    broker_cpu_s: float | None = None
    """Of the broker's process from the first trigger to the end; None where it is not ours to look at."""
    group: str = ""
    """As it was called on the broker."""
    busy: float | None = None
    """What part of the machine's CPU time was used from the first trigger to the end, by whomever."""
    answered: Answered | None = None
    """How questions for counts were answered from the group's rest before the first trigger on; None: nobody asked."""

    def save(self, path: Path) -> None:
        """As JSON lines; a file that exists is whole."""
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
        """What `save` wrote. Raises KohortError for anything else."""
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
    """Make the trial's topics, fill its changelog, and say where members are to join; each trial has its own names."""
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


def stage_for(trial: Trial, order: Order, directory: Path) -> Stage:
    """Where the trial happens; what its members write goes there."""
    homes = directory / "state" if trial.store == "rocksdb" else None
    return Stage(trial.client, order, trial.partitions, trial.tick_ms, directory, trial.settle_s, homes)
