"""An experiment: scenarios, clients, protocols and brokers, whose combinations are trials, and all other settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from itertools import product
from typing import Any

from kohort.errors import ConfigError
from kohort.lab.brokers import BROKERS, GIVEN
from kohort.lab.goals import ROWS
from kohort.lab.member import CLIENTS, PROTOCOLS_OF_CLIENTS
from kohort.lab.member_settings import PROTOCOLS
from kohort.lab.scenarios import LEAVE_OTHERS, SCENARIOS, possible
from kohort.lab.settings import GroupSettings, name_of, setting
from kohort.lab.trial import Trial

TABLE = "table"
"""Scenario that runs the experiments with target figures, which have settings of their own."""
REPORT = "report"
"""Scenario that runs nothing and reports the stored trials."""
_OF_REPORT = frozenset({"scenarios", "out"})
_OF_TABLE = _OF_REPORT | {"brokers", "rows", "repeat", "minutes", "bootstrap", "broker_settings"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(GroupSettings):
    """All settings of one `kohort lab`."""

    scenarios: tuple[str, ...] = setting(
        ("bounce",), "Scenarios, which run one after the other.", choices=(*SCENARIOS, TABLE, REPORT)
    )
    clients: tuple[str, ...] = setting(("kohort",), "Clients of the members.", choices=CLIENTS)
    protocols: tuple[str, ...] = setting(PROTOCOLS, "Protocols of the group.", choices=PROTOCOLS)
    brokers: tuple[str, ...] = setting(
        ("kohort", "kohort-hold-off"),
        "Brokers; kohort-hold-off has group.heartbeat.hold.ms=0, kafka is Apache Kafka, kafka+gateway has a gateway"
        " in front of it.",
        choices=tuple(BROKERS),
    )
    rows: tuple[str, ...] = setting(
        tuple(row.name for row in ROWS), "Lines of the table to run.", choices=tuple(row.name for row in ROWS)
    )
    repeat: int = setting(1, "Repetitions, which alternate between brokers.", least=1)
    minutes: float = setting(30.0, "Start no trial after this time.", least=0)
    out: str = setting("lab-out", "Directory for raw data and the report.")
    bootstrap: str = setting("", "Addresses (HOST:PORT,...) of a cluster to use instead of starting brokers.")
    broker_settings: Mapping[str, str] = field(
        default_factory=dict,
        metadata={"text": "Settings of the brokers, by Kafka's names.", "name": "", "least": None, "choices": ()},
    )

    @property
    def used(self) -> list[Field[Any]]:
        """Settings that have an effect with these scenarios, the most important ones first."""
        own = fields(Experiment)[len(fields(GroupSettings)) :]
        ordered = (*own[:-1], *fields(GroupSettings), own[-1])
        if self.scenarios == (REPORT,):
            return [each for each in ordered if each.name in _OF_REPORT]
        if self.scenarios == (TABLE,):
            return [each for each in ordered if each.name in _OF_TABLE]
        return [each for each in ordered if each.name != "rows"]

    def check(self) -> Experiment:
        """Return this experiment. Raises ConfigError if its settings contradict each other."""
        if len(self.scenarios) > 1 and {TABLE, REPORT} & set(self.scenarios):
            raise ConfigError(f"`{TABLE}` and `{REPORT}` run alone: name no other scenario beside them.")
        basis, used = built_in(self.scenarios), {each.name for each in self.used}
        for each in fields(self):
            if each.name not in used and getattr(self, each.name) != getattr(basis, each.name):
                raise ConfigError(f"`{name_of(each)}` has no effect on {', '.join(self.scenarios)}: leave it out.")
        if self.store == "rocksdb" and not self.state_keys:
            raise ConfigError("The store rocksdb needs a changelog to restore from: set `state-keys`, too.")
        if self.members < 2 and (alone := [name for name in self.scenarios if name in LEAVE_OTHERS]):
            raise ConfigError(f"`members` is at least 2 for {alone[0]}: another member takes the partitions.")
        return self

    def trials(self) -> list[Trial]:
        """Return all possible combinations.

        Trials on different brokers are adjacent; repetitions are outer to clients, protocols and
        brokers. Raises ConfigError if none is possible.
        """
        brokers = (GIVEN,) if self.bootstrap else self.brokers
        if self.scenarios == (TABLE,):
            chosen = [row for row in ROWS if row.name in self.rows]
            return [trial for row in chosen for trial in row.trials(brokers, self.repeat)]
        found = [trial for trial in self._combinations(brokers) if possible(trial)]
        if not found:
            raise ConfigError(
                "No combination can be run: deploy needs the consumer protocol and Kohort; aiokafka is eager; warm-up"
                " needs the client kohort, and the consumer protocol with it a broker of Kohort; RocksDB is not"
                " available for the client java."
            )
        return found

    def _combinations(self, brokers: tuple[str, ...]) -> Iterator[Trial]:
        shared = {each.name: getattr(self, each.name) for each in fields(GroupSettings)}
        repetitions = range(1, self.repeat + 1)
        combined = product(self.scenarios, repetitions, self.clients, self.protocols, brokers)
        for scenario, repetition, client, protocol, broker in combined:
            if protocol in PROTOCOLS_OF_CLIENTS.get(client, PROTOCOLS):
                yield Trial(
                    scenario=scenario, broker=broker, client=client, protocol=protocol, repetition=repetition, **shared
                )


def built_in(scenarios: tuple[str, ...]) -> Experiment:
    """Return the experiment of these scenarios with the default settings."""
    experiment = Experiment(scenarios=scenarios)
    return replace(experiment, brokers=("kohort", "kafka")) if scenarios == (TABLE,) else experiment
