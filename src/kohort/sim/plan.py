"""What happens in one world: members, settings, and steps at times. A seed draws it, and a file can hold it.

Everything that happens from outside is a step, so that a failing plan can be made smaller by leaving steps out. What
happens inside (how long a byte travels) comes from the seed's other dice.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from kohort.model import Millis, TopicPartition
from kohort.sim.application import Habits


@dataclass(frozen=True, slots=True)
class Step:
    """At `at` seconds after the start, do that. `who` is a member's number, a broker's, or none."""

    at: float
    what: str
    who: int = -1
    value: str = ""

    def __str__(self) -> str:
        who = f" {self.who}" if self.who >= 0 else ""
        return f"at {self.at:.4f} {self.what}{who}{' ' + self.value if self.value else ''}"


@dataclass(slots=True)
class Plan:
    """One world from its start to the moment when the faults end."""

    seed: int
    seconds: float = 120.0
    """How long there are steps; after that the world has to come to rest."""
    brokers: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    """Of the brokers, by Kafka's names."""
    topics: dict[str, int] = field(default_factory=dict)
    """Partitions of those that exist at the start."""
    members: list[Habits] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    """How fast each member's clock goes."""
    pieces: float = 0.0
    """How likely a write arrives in two pieces."""
    files: bool = False
    """Whether the log lies in files, as production's, or in simulated memory."""
    database: bool = False
    """Whether that memory is a database's, whose brokers hold leases."""
    cluster: bool = False
    """Whether all brokers serve at once, over one directory, and move what they lead."""
    records: bool = False
    """Whether members read real records, by production's consumer; else records are numbers."""
    writers: int = 1
    """Producers, where there are records."""
    readers: list[tuple[TopicPartition, ...]] = field(default_factory=list)
    """Consumers without a group, where there are records, each with its partitions, be it that some do not exist."""
    metadata_age: Millis = 10_000
    """When members notice new partitions at the latest."""
    steps: list[Step] = field(default_factory=list)

    @property
    def is_calm(self) -> bool:
        """Whether it lasts so long that nobody need look as often as once a second."""
        return self.seconds > 3_600

    @property
    def faults(self) -> list[Step]:
        """The steps that are accidents."""
        return [step for step in self.steps if step.what in FAULTS]


FAULTS = frozenset(
    {
        "aim",
        "ambush",
        "reset",
        "cut",
        "deaf",
        "mute",
        "kill",
        "vanish",
        "stop",
        "slow-network",
        "broker-kill",
        "broker-vanish",
        "broker-term",
        "broker-stop",
        "broker-cut",
        "disk-error",
        "disk-full",
        "disk-slow",
        "bit-flip",
        "clock-jump",
        "poll-stop",
        "callback",
        "stranger",
        "crowd",
        "client-kill",
        "client-stop",
        "client-reset",
        "client-cut",
        "client-deaf",
        "client-mute",
        "forget-sessions",
        "spoil",
        "reassign",
        "call-off",
        "elect",
    }
)
"""Steps that nobody wants."""


def dump(plan: Plan) -> str:
    """The plan as lines that `load` reads."""
    lines = [f"seed {plan.seed}", f"seconds {plan.seconds:g}", f"brokers {plan.brokers}"]
    lines += [f"pieces {plan.pieces:g}", f"metadata_age {plan.metadata_age}", f"files {plan.files:d}"]
    lines += ["database 1"] if plan.database else []
    lines += ["cluster 1"] * plan.cluster
    lines += [f"records 1\nwriters {plan.writers}"] * plan.records
    lines += [f"reader {' '.join(f'{name}-{number}' for name, number in one)}" for one in plan.readers]
    lines += [f"set {name}={value}" for name, value in sorted(plan.settings.items())]
    lines += [f"topic {name} {partitions}" for name, partitions in sorted(plan.topics.items())]
    for number, habits in enumerate(plan.members):
        words = [f"{one.name}={_text(getattr(habits, one.name))}" for one in fields(Habits)]
        lines.append(f"member {number} rate={plan.rates[number]:g} {' '.join(words)}")
    lines += [str(step) for step in plan.steps]
    return "\n".join(lines) + "\n"


def load(text: str) -> Plan:
    """Read what `dump` wrote; lines that begin with # are the story. Raises ValueError."""
    plan = Plan(seed=0)
    for number, line in enumerate(text.splitlines(), start=1):
        word, _, rest = line.strip().partition(" ")
        try:
            _read(plan, word, rest)
        except (ValueError, KeyError, IndexError) as problem:
            raise ValueError(f"line {number} is not understood: {line!r}") from problem
    return plan


def _read(plan: Plan, word: str, rest: str) -> None:
    match word:
        case "seed" | "brokers" | "metadata_age" | "writers":
            setattr(plan, word, int(rest))
        case "files" | "database" | "cluster" | "records":
            setattr(plan, word, bool(int(rest)))
        case "seconds" | "pieces":
            setattr(plan, word, float(rest))
        case "set":
            name, _, value = rest.partition("=")
            plan.settings[name] = value
        case "topic":
            name, partitions = rest.split()
            plan.topics[name] = int(partitions)
        case "reader":
            named = [one.rpartition("-") for one in rest.split()]
            plan.readers.append(tuple(TopicPartition(topic, int(number)) for topic, _, number in named))
        case "member":
            words = dict(one.split("=", 1) for one in rest.split()[1:])
            plan.rates.append(float(words.pop("rate")))
            plan.members.append(_habits(words))
        case "at":
            plan.steps.append(_step(rest.split()))
        case _:
            if word and not word.startswith("#"):
                raise ValueError(word)


def _step(words: list[str]) -> Step:
    at, what, *rest = words
    who = int(rest.pop(0)) if rest and rest[0].isdigit() else -1
    return Step(float(at), what, who, " ".join(rest))


def _habits(words: dict[str, str]) -> Habits:
    given: dict[str, Any] = {}
    for one in fields(Habits):
        if one.name not in words:
            continue  # a plan of before there was such a habit
        text = words[one.name]
        if one.name == "topics":
            given[one.name] = tuple(text.split(","))
        elif one.name == "instance":
            given[one.name] = None if text == "-" else text
        else:
            given[one.name] = text if isinstance(one.default, str) or one.name == "group" else int(text)
    return Habits(**given)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return ",".join(value) if isinstance(value, tuple) else str(value)
