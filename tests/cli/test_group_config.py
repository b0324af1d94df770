"""The configs of a group from the command line, against ours; with --broker both against Apache Kafka too."""

from __future__ import annotations

import json

from tests.cli.conftest import Run
from tests.interop.broker import Broker
from tests.interop.process import until

SESSION = "consumer.session.timeout.ms"


def test_a_groups_configs_are_set_shown_and_left_to_the_broker_again(run: Run, any_broker: Broker, name: str) -> None:
    bootstrap = any_broker.bootstrap
    config = ("group", "config")

    def shown() -> list[list[str]]:
        return [line.split() for line in run(*config, "show", name, bootstrap=bootstrap).lines]

    assert run(*config, "set", name, f"{SESSION}=50000", bootstrap=bootstrap).lines == [f"{name}: {SESSION}=50000"]
    # Apache Kafka responds before all brokers have applied the change.
    until(20, "set", lambda: shown() == [["config", "value", "set", "by"], [SESSION, "50000", "group"]])
    told = json.loads(run(*config, "show", name, "--all", "--json", bootstrap=bootstrap).out)["configs"]
    assert told[SESSION] == {"value": "50000", "set_by": "group"}
    assert told["consumer.heartbeat.interval.ms"]["set_by"] in ("broker", "default")
    assert run(*config, "unset", name, SESSION, bootstrap=bootstrap).code == 0
    until(20, "unset", lambda: shown()[0][:4] == [name, "has", "no", "configs"])
    again = run(*config, "unset", name, SESSION, bootstrap=bootstrap)
    assert (again.code, again.out) == (1, "")
    assert f"{name} does not set {SESSION}" in again.err


def test_invalid_group_configs_are_rejected(run: Run, any_broker: Broker, name: str) -> None:
    ran = run("group", "config", "set", name, f"{SESSION}=1", bootstrap=any_broker.bootstrap)
    assert ran.code != 0
    assert ran.out == ""
    assert SESSION in ran.err
