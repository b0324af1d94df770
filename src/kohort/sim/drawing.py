"""A plan drawn from a seed. Each seed leaves most kinds of steps out, so that rare combinations get room (swarm)."""

from __future__ import annotations

from random import Random

from kohort.sim.application import Habits
from kohort.sim.plan import Plan, Step

ASSIGNORS = ["range", "roundrobin", "sticky", "cooperative-sticky", "range,roundrobin", "cooperative-sticky,range"]
TOPICS = ["orders", "payments", "clicks", "audit"]

_MEMBERS = ("leave", "kill", "vanish", "stop", "reset", "cut", "deaf", "mute", "subscribe", "poll-stop", "callback")
_BROKERS = ("broker-kill", "broker-vanish", "broker-term", "broker-stop", "disk-error", "disk-full", "disk-slow")
_WORLD = ("slow-network", "produce", "create", "grow", "delete", "remove-member", "delete-group", "delete-offsets")


def draw(seed: int, longest: float = 900.0) -> Plan:
    """The plan of that seed, with at most so many seconds of steps."""
    dice = Random(f"plan {seed}")
    plan = Plan(seed)
    plan.seconds = min(dice.choice([60.0, 120.0, 120.0, 300.0, 900.0]), longest)
    plan.brokers = dice.choice([1, 2, 2, 3])
    plan.pieces = dice.choice([0.0, 0.0, 0.3])
    plan.settings = _settings(dice)
    plan.topics = {name: dice.randint(1, 6) for name in dice.sample(TOPICS, dice.randint(1, 3))}
    _members(plan, dice)
    _steps(plan, dice)
    return plan


def _settings(dice: Random) -> dict[str, str]:
    settings = {"group.initial.rebalance.delay.ms": dice.choice(["0", "500", "3000"])}
    session = dice.choice([6_000, 10_000, 30_000])
    settings |= {
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": str(session),
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.heartbeat.interval.ms": str(session // 3),
        "group.consumer.assignment.interval.ms": dice.choice(["0", "1000"]),
    }
    if dice.random() < 0.15:
        settings["group.max.size"] = str(dice.randint(2, 4))
    if dice.random() < 0.15:
        settings |= {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "20000"}
    return settings


def _members(plan: Plan, dice: Random) -> None:
    slow = plan.seconds >= 300 and dice.random() < 0.7
    for group in [f"group-{number}" for number in range(dice.choice([1, 1, 2, 3]))]:
        assignors = dice.choice(ASSIGNORS)
        static = dice.choice([0.0, 0.0, 0.5, 1.0])
        protocol = dice.choice(["classic", "classic", "consumer", "mixed"])
        session = dice.choice([30_000, 60_000, 120_000] if slow else [6_000, 10_000, 30_000])
        if protocol == "consumer":
            session = int(plan.settings["group.consumer.session.timeout.ms"])
        for number in range(dice.choice([1, 2, 3, 3, 4, 5])):
            name = f"i{number}" if dice.random() < static else None
            if name is not None and number and dice.random() < 0.1:
                name = f"i{number - 1}"  # two processes that believe to be the same
            mixed = dice.random() < 0.15
            plan.members.append(
                Habits(
                    group=group,
                    topics=tuple(sorted(dice.sample(TOPICS, 2) if mixed and not static else plan.topics)),
                    assignors=assignors,
                    instance=name,
                    session=session,
                    heartbeat=session // 3,
                    # Members that hear of a rebalance later than it waits throw each other out for ever, in Kafka too.
                    max_poll=max(dice.choice([10_000, 30_000, 60_000]), session),
                    poll_every=dice.choice([5_000, 9_000]) if slow else dice.choice([500, 1_000, 3_000]),
                    commit_every=dice.choice([1_000, 5_000, 20_000]),
                    callback=dice.choice([0, 0, 10, 500, 3_000]),
                    batch=dice.choice([1, 10, 100]),
                    protocol=dice.choice(["classic", "consumer"]) if protocol == "mixed" else protocol,
                )
            )
            plan.rates.append(1.0 if dice.random() < 0.8 else round(dice.uniform(0.97, 1.03), 4))


def _steps(plan: Plan, dice: Random) -> None:
    count = len(plan.members)
    steps = [Step(round(dice.uniform(0.1, min(plan.seconds / 3, 20.0)), 3), "start", one) for one in range(count)]
    for kind in (*_MEMBERS, *_BROKERS, *_WORLD):
        if dice.random() < (0.35 if kind != "produce" else 0.8):
            mean = plan.seconds / dice.choice([1, 2, 5, 12])
            at = dice.expovariate(1 / mean)
            while at < plan.seconds:
                steps.append(_step(kind, round(at, 3), plan, dice))
                at += dice.expovariate(1 / mean)
    if dice.random() < 0.3:
        # In the few milliseconds between the first join, which only brings an id, and the second (KIP-394).
        begins = dice.choice([step for step in steps if step.what == "start"])
        early = round(begins.at + dice.uniform(0.003, 0.012), 4)
        steps.append(Step(early, "kill", begins.who, f"{dice.choice([0.5, 30.0, 600.0]):g}"))
    if dice.random() < 0.3:
        steps += [Step(round(dice.uniform(0.0, plan.seconds), 3), "ambush") for _ in range(dice.randint(1, 6))]
    plan.steps = sorted(steps, key=lambda step: (step.at, step.what, step.who))


def _step(kind: str, at: float, plan: Plan, dice: Random) -> Step:
    member = dice.randrange(len(plan.members))
    broker = dice.randrange(plan.brokers)
    short = f"{dice.choice([0.05, 0.5, 2.0, 8.0, 20.0, 45.0]) * dice.uniform(0.5, 1.5):.3f}"
    match kind:
        case "leave" | "kill" | "vanish" | "stop" | "cut" | "deaf" | "mute" | "poll-stop":
            return Step(at, kind, member, short)
        case "callback":
            return Step(at, kind, member, str(dice.choice([0, 1_000, 15_000, 40_000])))
        case "reset":
            return Step(at, kind, member)
        case "subscribe":
            return Step(at, kind, member, ",".join(sorted(dice.sample(TOPICS, dice.randint(1, 3)))))
        case "broker-kill" | "broker-vanish" | "broker-term" | "broker-stop":
            return Step(at, kind, broker, short)
        case "disk-error" | "disk-full" | "disk-slow" | "slow-network":
            return Step(at, kind, value=f"{dice.choice([0.01, 0.5, 3.0]) * dice.uniform(0.5, 1.5):.3f}")
        case "produce":
            return Step(at, kind, value=f"{dice.choice(TOPICS)} {dice.choice([1, 10, 200])}")
        case "create" | "grow" | "delete":
            return Step(at, kind, value=f"{dice.choice(TOPICS)} {dice.randint(1, 6)}")
        case _:
            return Step(at, kind, value=plan.members[member].group)
