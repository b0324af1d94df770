"""Execution of a scenario: the group, and actions besides starting and stopping members."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from kohort import blocking
from kohort.client import ConfigKind
from kohort.lab.brokers import LabBroker
from kohort.lab.lab_group import LabGroup
from kohort.lab.trial import Outcome, Trial

_GOLDEN = 0.618
"""Golden ratio. The fractional parts of its multiples are evenly spread, however many there are."""


class ScenarioRun:
    """Execution of one trial on one broker."""

    def __init__(self, trial: Trial, broker: LabBroker, group: LabGroup, topic: str) -> None:
        self.trial = trial
        self._broker = broker
        self._group = group
        self._topic = topic
        self._cpu_at_first: float | None = None
        self._machine_at_first = (0, 0)

    def begin(self, members: int) -> list[str]:
        """Start members and wait until the group has settled; return their names."""
        names = self._group.start(members)
        self._group.settle()
        if self._group.queries is not None:
            self._group.queries.begin()
        self._cpu_at_first = self._broker.cpu_seconds()
        self._machine_at_first = _machine_ticks()
        return names

    @contextlib.contextmanager
    def trigger(self, what: str) -> Iterator[LabGroup]:
        """Apply a trigger in the block, then wait until the group has settled."""
        time.sleep(self.trial.rest_ms * (1 + len(self._group.triggers) * _GOLDEN % 1) / 1000)
        if self.trial.out_of_step:
            self._group.spread_heartbeats()
        self._group.trigger(what)
        yield self._group
        self._group.settle()

    def add_partitions(self, total: int) -> None:
        """Increase the topic's partition count to `total`."""
        with blocking.Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            admin.create_partitions(self._topic, total)
        self._group.opened(total)

    def weigh(self, weights: Mapping[str, float]) -> None:
        """Set the group's assignor to `weighted` with these entries of `consumer.member.weights`."""
        entries = ",".join(f"{entry}={weight:g}" for entry, weight in weights.items())
        changes = {"consumer.assignor": "weighted", "consumer.member.weights": entries}
        with blocking.Admin(bootstrap_servers=self._broker.bootstrap) as admin:
            admin.alter_configs(ConfigKind.GROUP, self._topic, changes)
        self._group.weights.clear()
        for name in self._group.members:
            fitting = [weight for entry, weight in weights.items() if fnmatchcase(name, entry)]
            self._group.weights[name] = fitting[0] if fitting else 1.0

    def restart_broker(self) -> None:
        """Kill the broker and start it again at once; return when it answers."""
        self._broker.kill()
        self._broker.start_again()
        self._group.broker_back()
        self._cpu_at_first = None

    def outcome(self) -> Outcome:
        """Return the outcome so far."""
        now = self._broker.cpu_seconds()
        used = None if self._cpu_at_first is None or now is None else now - self._cpu_at_first
        queries = self._group.queries
        return Outcome(
            self.trial, list(self._group.triggers), list(self._group.events), used, self._topic, self._busy(),
            None if queries is None else queries.answered,
            self._broker.trace_since(self._group.triggers[0].at) if self.trial.trace and self._group.triggers else None,
        )  # fmt: skip

    def _busy(self) -> float:
        used, total = (now - before for now, before in zip(_machine_ticks(), self._machine_at_first, strict=True))
        return used / max(1, total)


def _machine_ticks() -> tuple[int, int]:
    """Return the CPU ticks of all cores since boot: used, and used or idle (proc(5), stat)."""
    user, nice, system, idle, iowait, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    used = user + nice + system + sum(interrupts)
    return used, used + idle + iowait
