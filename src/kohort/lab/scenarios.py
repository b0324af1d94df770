"""Scenarios of the experiments. Each begins and ends with a settled group."""

from __future__ import annotations

import time
from collections.abc import Callable

from kohort.lab.play import ScenarioRun
from kohort.lab.trial import Trial

Scenario = Callable[[ScenarioRun], None]


def bounce(play: ScenarioRun) -> None:
    """Restart every member, one after the other."""
    for name in play.begin(play.trial.members):
        with play.trigger(f"restart {name}") as stage:
            stage.stop(name)
            time.sleep(play.trial.gap_ms / 1000)
            stage.start_again(name)


def scale_out(play: ScenarioRun) -> None:
    """Add one member."""
    play.begin(play.trial.members)
    with play.trigger("one joins") as stage:
        stage.start()


def scale_in(play: ScenarioRun) -> None:
    """Stop one member, which leaves the group."""
    name, *_ = play.begin(play.trial.members)
    with play.trigger(f"{name} leaves") as stage:
        stage.stop(name)


def crash(play: ScenarioRun) -> None:
    """Kill one member, which does not leave the group first."""
    name, *_ = play.begin(play.trial.members)
    with play.trigger(f"{name} is killed") as stage:
        stage.kill(name)


def takeover(play: ScenarioRun) -> None:
    """Add two members at once to a group in which one member owns all partitions."""
    play.begin(1)
    with play.trigger("two join") as stage:
        stage.start(2)


def partitions(play: ScenarioRun) -> None:
    """Increase the topic's partition count tenfold."""
    play.begin(play.trial.members)
    with play.trigger(f"{play.trial.partitions} become {10 * play.trial.partitions}"):
        play.add_partitions(10 * play.trial.partitions)


def coordinator(play: ScenarioRun) -> None:
    """Kill the broker and start it again."""
    play.begin(play.trial.members)
    with play.trigger("broker killed"):
        play.restart_broker()


def deploy(play: ScenarioRun) -> None:
    """Deploy a new version with weights.

    A member of the new version gets a quarter of the others' share, then a full share; then an old
    member is drained and ends. Draining first makes its end free of cost, because it owns no
    partitions by then.
    """
    play.weigh({"new-*": 5, "m*": 20})
    old, *_ = play.begin(play.trial.members)
    with play.trigger("a new version joins at a quarter") as stage:
        (new,) = stage.start(prefix="new-")
        stage.weights.update(dict.fromkeys(stage.members, 20.0), **{new: 5.0})
    with play.trigger("it gets a full share"):
        play.weigh({"new-*": 20, "m*": 20})
    with play.trigger(f"{old} is drained"):
        play.weigh({old: 0, "new-*": 20, "m*": 20})
    with play.trigger(f"{old} ends") as stage:
        stage.stop(old)


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
        trial.client != "kohort" or trial.protocol == "eager" or (trial.protocol, trial.broker) == ("consumer", "kafka")
    ):
        return False
    return trial.scenario != "deploy" or (trial.protocol == "consumer" and trial.broker != "kafka")
