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
from kohort.lab.broker_trace import BrokerTrace
from kohort.lab.events import Event, MalformedEvent, line, parse
from kohort.lab.lab_group import LabGroup, Trigger
from kohort.lab.member_settings import MemberSettings
from kohort.lab.queries import Answered
from kohort.lab.settings import GroupSettings


def is_apache_kafka(broker: str) -> bool:
    """Return whether that broker is Apache Kafka, with or without a gateway."""
    return broker in ("kafka", "kafka+gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial(GroupSettings):
    """Parameters of one experiment with one broker, client and protocol."""

    scenario: str
    broker: str
    client: str
    protocol: str
    repetition: int = 1
    label: str = ""
    """Experiment to which the trial belongs, if one scenario runs in several variants; empty means the scenario."""

    @property
    def is_on_kafka(self) -> bool:
        """Whether the group's coordinator is that of Apache Kafka."""
        return is_apache_kafka(self.broker)

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
    traced: BrokerTrace | None = None
    """The broker's side since the first trigger; None if it was not traced."""

    def save(self, path: Path) -> None:
        """Write the outcome as JSON lines. The file appears only when it is complete."""
        head = {
            "trial": asdict(self.trial),
            "triggers": [asdict(trigger) for trigger in self.triggers],
            "broker_cpu_s": self.broker_cpu_s,
            "group": self.group,
            "busy": self.busy,
            "answered": None if self.answered is None else asdict(self.answered),
            "traced": None if self.traced is None else self.traced.lines(),
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
            triggers, events = [Trigger.of(trigger) for trigger in head["triggers"]], [parse(text) for text in rest]
            answered = Answered(**head["answered"]) if head.get("answered") else None
            trial, lines = Trial(**head["trial"]), head.get("traced")
            traced = None if lines is None else BrokerTrace.of(lines)
            return cls(trial, triggers, events, head["broker_cpu_s"], head["group"], head["busy"], answered, traced)
        except (ValueError, KeyError, TypeError, MalformedEvent) as problem:
            raise KohortError(
                f"{path} is not a trial of this version: remove it, or choose another `out`."
            ) from problem


def prepare(trial: Trial, bootstrap: str) -> MemberSettings:
    """Create the trial's topics, fill its changelog, and return the settings of its members.

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
    return MemberSettings(
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


def group_for(trial: Trial, settings: MemberSettings, directory: Path) -> LabGroup:
    """Return the trial's group, whose members write their files to `directory`."""
    homes = directory / "state" if trial.store == "rocksdb" else None
    return LabGroup(trial.client, settings, trial.partitions, trial.tick_ms, directory, trial.settle_s, homes)
