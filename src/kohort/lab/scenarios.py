"""What is done to a group, scenario by scenario: each begins with a group at rest and ends with one."""

from __future__ import annotations

import time
from collections.abc import Callable

from kohort.lab.play import Play
from kohort.lab.trial import Trial

Scenario = Callable[[Play], None]


def bounce(play: Play) -> None:
    """Every member is restarted, one after the other."""
    for name in play.begin(play.trial.members):
        with play.trigger(f"restart {name}") as stage:
            stage.stop(name)
            time.sleep(play.trial.gap_ms / 1000)
            stage.start_again(name)


def scale_out(play: Play) -> None:
    """One member joins."""
    play.begin(play.trial.members)
    with play.trigger("one joins") as stage:
        stage.start()


def scale_in(play: Play) -> None:
    """One member leaves."""
    name, *_ = play.begin(play.trial.members)
    with play.trigger(f"{name} leaves") as stage:
        stage.stop(name)


def crash(play: Play) -> None:
    """One member is killed, without a goodbye."""
    name, *_ = play.begin(play.trial.members)
    with play.trigger(f"{name} is killed") as stage:
        stage.kill(name)


def takeover(play: Play) -> None:
    """One member has everything, and two join at once."""
    play.begin(1)
    with play.trigger("two join") as stage:
        stage.start(2)


def partitions(play: Play) -> None:
    """The topic gets ten times its partitions."""
    play.begin(play.trial.members)
    with play.trigger(f"{play.trial.partitions} become {10 * play.trial.partitions}"):
        play.add_partitions(10 * play.trial.partitions)


def coordinator(play: Play) -> None:
    """The broker is killed, and started again."""
    play.begin(play.trial.members)
    with play.trigger("broker killed"):
        play.restart_broker()


def deploy(play: Play) -> None:
    """A new version gets a quarter of what the others have, then as much as they; an old member is drained and ends.

    Draining first makes its end cost nothing: a member that has nothing takes nothing with it.
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
    """Whether the broker can be asked for it: weights are ours alone, and of the consumer protocol.

    Warm-up is our client's alone, and cannot be where all is given up; members compute for a consumer group only here.
    RocksDB is kept by the application that the clients in Python share.
    """
    if trial.store == "rocksdb" and trial.client == "java":
        return False
    if trial.is_warm and (
        trial.client != "kohort" or trial.protocol == "eager" or (trial.protocol, trial.broker) == ("consumer", "kafka")
    ):
        return False
    return trial.scenario != "deploy" or (trial.protocol == "consumer" and trial.broker != "kafka")
