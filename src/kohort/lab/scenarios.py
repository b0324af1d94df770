"""Scenarios of the experiments. Each begins and ends with a settled group."""

from __future__ import annotations

import time
from collections.abc import Callable

from kohort.lab.scenario_run import ScenarioRun
from kohort.lab.trial import Trial

Scenario = Callable[[ScenarioRun], None]


def bounce(run: ScenarioRun) -> None:
    """Restart every member, one after the other."""
    for name in run.begin(run.trial.members):
        with run.trigger(f"restart {name}") as group:
            group.stop(name)
            time.sleep(run.trial.gap_ms / 1000)
            group.start_again(name)


def scale_out(run: ScenarioRun) -> None:
    """Add one member."""
    run.begin(run.trial.members)
    with run.trigger("one joins") as group:
        group.start()


def scale_in(run: ScenarioRun) -> None:
    """Stop one member, which leaves the group."""
    name, *_ = run.begin(run.trial.members)
    with run.trigger(f"{name} leaves") as group:
        group.stop(name)


def crash(run: ScenarioRun) -> None:
    """Kill one member, which does not leave the group first."""
    name, *_ = run.begin(run.trial.members)
    with run.trigger(f"{name} is killed") as group:
        group.kill(name)


def takeover(run: ScenarioRun) -> None:
    """Add two members at once to a group in which one member owns all partitions."""
    run.begin(1)
    with run.trigger("two join") as group:
        group.start(2)


def partitions(run: ScenarioRun) -> None:
    """Increase the topic's partition count tenfold."""
    run.begin(run.trial.members)
    with run.trigger(f"{run.trial.partitions} become {10 * run.trial.partitions}"):
        run.add_partitions(10 * run.trial.partitions)


def coordinator(run: ScenarioRun) -> None:
    """Kill the broker and start it again."""
    run.begin(run.trial.members)
    with run.trigger("broker killed"):
        run.restart_broker()


def deploy(run: ScenarioRun) -> None:
    """Deploy a new version with weights.

    A member of the new version gets a quarter of the others' share, then a full share; then an old
    member is drained and ends. Draining first makes its end free of cost, because it owns no
    partitions by then.
    """
    run.weigh({"new-*": 5, "m*": 20})
    old, *_ = run.begin(run.trial.members)
    with run.trigger("a new version joins at a quarter") as group:
        (new,) = group.start(prefix="new-")
        group.weights.update(dict.fromkeys(group.members, 20.0), **{new: 5.0})
    with run.trigger("it gets a full share"):
        run.weigh({"new-*": 20, "m*": 20})
    with run.trigger(f"{old} is drained"):
        run.weigh({old: 0, "new-*": 20, "m*": 20})
    with run.trigger(f"{old} ends") as group:
        group.stop(old)


SCENARIOS: dict[str, Scenario] = {
    "bounce": bounce,
    "scale-out": scale_out,
    "scale-in": scale_in,
    "crash": crash,
    "takeover": takeover,
    "partitions": partitions,
    "coordinator": coordinator,
    "deploy": deploy,
}


LEAVE_OTHERS = frozenset({"scale-in", "crash"})
"""Scenarios in which a member ends and no other one starts."""


def possible(trial: Trial) -> bool:
    """Return whether the trial's broker and client support its scenario, protocol and store.

    Weights exist only in Kohort and in the consumer protocol. Warm-up needs Kohort's client and is
    impossible with the eager protocol, which revokes everything. In a consumer group it needs a
    Kohort broker, because only there do members compute the assignment. RocksDB belongs to the
    application that the Python clients share.
    """
    if trial.store == "rocksdb" and trial.client == "java":
        return False
    if trial.is_warm and (
        trial.client != "kohort" or trial.protocol == "eager" or (trial.protocol == "consumer" and trial.is_on_kafka)
    ):
        return False
    return trial.scenario != "deploy" or (trial.protocol == "consumer" and not trial.is_on_kafka)
