"""Plan of one world: members, settings, and steps at times. It is drawn from a seed, and can be stored in a file.

All external events are steps, so a failing plan can be reduced by removing steps. Internal events,
such as the transit time of a message, depend on other random numbers of the seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from typing import Any

from kohort.model import Millis, TopicPartition
from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.steps import MemberSwitchProtocol, Step, TopicDelete, is_fault, parse

_OF_TRANSACTIONS = ("copiers", "transactional_ids", "transaction_timeout", "copying")


@dataclass(slots=True)
class Plan:
    """One world from its start to the end of the faults."""

    seed: int
    seconds: float = 120.0
    """Duration of the steps; afterwards the world has to come to rest."""
    brokers: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    """Settings of the brokers, under Kafka's names."""
    topics: dict[str, int] = field(default_factory=dict)
    """Partition counts of the topics that exist at the start."""
    members: list[ApplicationSettings] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    """Rate of each member's clock."""
    pieces: float = 0.0
    """Probability that a write arrives in two pieces."""
    files: bool = False
    """Whether the log is stored in files, as in production, or in simulated memory."""
    database: bool = False
    """Whether that memory simulates a database, whose brokers hold leases."""
    cluster: bool = False
    """Whether all brokers serve at once, over one directory, and move leadership among them."""
    records: bool = False
    """Whether members read real records, with production's consumer; otherwise records are numbers."""
    writers: int = 1
    """Number of producers, if there are records."""
    readers: list[tuple[TopicPartition, ...]] = field(default_factory=list)
    """Partitions of each consumer without a group, if there are records; some may not exist."""
    copiers: int = 0
    """Number of processes that copy records in transactions; only with records."""
    transactional_ids: int = 1
    """Number of transactional ids; further copiers have the id of another one."""
    transaction_timeout: Millis = 5_000
    """Timeout of transactions in milliseconds."""
    copying: str = "-"
    """Protocol of the group whose members copy: `consumer`, or an assignor of the classic protocol.

    If it is -, each copier has partitions of its own.
    """
    metadata_age: Millis = 10_000
    """Maximum age of metadata in milliseconds, after which members detect new partitions."""
    secured: bool = False
    """Whether clients authenticate, and brokers decide by ACLs."""
    gateway_rates: list[float] = field(default_factory=list)
    """Rate of each gateway's clock."""
    ways: list[int] = field(default_factory=list)
    """Gateway that each member uses, -1 for none; empty if there are no gateways."""
    client_ways: list[int] = field(default_factory=list)
    """The same for each client of records: writers, readers, copiers, and the two readers of their copies."""
    steps: list[Step] = field(default_factory=list)

    @property
    def is_calm(self) -> bool:
        """Whether the world is so long that checks need not run every second."""
        return self.seconds > 3_600

    @property
    def shared_instances(self) -> set[str]:
        """Groups in which two members have one instance ID."""
        named = Counter((member.group, member.instance) for member in self.members if member.instance is not None)
        return {group for (group, _), members in named.items() if members > 1}

    @property
    def groups_of_replaced_topics(self) -> set[str]:
        """Groups that may have members of both protocols while a topic is deleted and created again.

        A classic member knows names only, and a member of the other protocol may have the new topic's partition.
        """
        if not any(isinstance(step, TopicDelete) for step in self.steps):
            return set()
        switching = {step.member for step in self.steps if isinstance(step, MemberSwitchProtocol)}
        protocols: dict[str, set[str]] = defaultdict(set)
        for number, member in enumerate(self.members):
            protocols[member.group] |= {"classic", "consumer"} if number in switching else {member.protocol}
        return {group for group, found in protocols.items() if len(found) > 1}

    @property
    def faults(self) -> list[Step]:
        """Steps that are faults."""
        return [step for step in self.steps if is_fault(type(step))]


def dump(plan: Plan) -> str:
    """Return the plan as lines that `load` reads."""
    lines = [f"seed {plan.seed}", f"seconds {plan.seconds:g}", f"brokers {plan.brokers}"]
    lines += [f"pieces {plan.pieces:g}", f"metadata_age {plan.metadata_age}", f"files {plan.files:d}"]
    lines += ["database 1"] if plan.database else []
    lines += ["cluster 1"] * plan.cluster
    lines += ["secured 1"] * plan.secured
    lines += [f"records 1\nwriters {plan.writers}"] * plan.records
    if plan.copiers:
        lines += [f"{name} {getattr(plan, name)}" for name in _OF_TRANSACTIONS]
    lines += [f"reader {' '.join(f'{name}-{number}' for name, number in partitions)}" for partitions in plan.readers]
    lines += [f"gateway {rate:g}" for rate in plan.gateway_rates]
    lines += [f"ways {' '.join(map(str, plan.ways))}"] if plan.ways else []
    lines += [f"client_ways {' '.join(map(str, plan.client_ways))}"] if plan.client_ways else []
    lines += [f"set {name}={value}" for name, value in sorted(plan.settings.items())]
    lines += [f"topic {name} {partitions}" for name, partitions in sorted(plan.topics.items())]
    for number, settings in enumerate(plan.members):
        words = [f"{setting.name}={_text(getattr(settings, setting.name))}" for setting in fields(ApplicationSettings)]
        lines.append(f"member {number} rate={plan.rates[number]:g} {' '.join(words)}")
    lines += [str(step) for step in plan.steps]
    return "\n".join(lines) + "\n"


def load(text: str) -> Plan:
    """Parse the output of `dump`; lines that begin with # are comments. Raises ValueError."""
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
        case "seed" | "brokers" | "metadata_age" | "writers" | "copiers" | "transactional_ids" | "transaction_timeout":
            setattr(plan, word, int(rest))
        case "files" | "database" | "cluster" | "secured" | "records":
            setattr(plan, word, bool(int(rest)))
        case "copying":
            plan.copying = rest
        case "seconds" | "pieces":
            setattr(plan, word, float(rest))
        case "gateway":
            plan.gateway_rates.append(float(rest))
        case "ways" | "client_ways":
            setattr(plan, word, list(map(int, rest.split())))
        case "set":
            name, _, value = rest.partition("=")
            plan.settings[name] = value
        case "topic":
            name, partitions = rest.split()
            plan.topics[name] = int(partitions)
        case "reader":
            named = [word.rpartition("-") for word in rest.split()]
            plan.readers.append(tuple(TopicPartition(topic, int(number)) for topic, _, number in named))
        case "member":
            words = dict(word.split("=", 1) for word in rest.split()[1:])
            plan.rates.append(float(words.pop("rate")))
            plan.members.append(_habits(words))
        case "at":
            plan.steps.append(parse(f"at {rest}"))
        case _:
            if word and not word.startswith("#"):
                raise ValueError(word)


def _habits(words: dict[str, str]) -> ApplicationSettings:
    given: dict[str, Any] = {}
    for setting in fields(ApplicationSettings):
        if setting.name not in words:
            continue  # the plan is older than this attribute
        text = words[setting.name]
        if setting.name == "topics":
            given[setting.name] = tuple(text.split(","))
        elif setting.name == "instance":
            given[setting.name] = None if text == "-" else text
        else:
            given[setting.name] = text if isinstance(setting.default, str) or setting.name == "group" else int(text)
    return ApplicationSettings(**given)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return ",".join(value) if isinstance(value, tuple) else str(value)
