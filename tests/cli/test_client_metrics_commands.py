"""`kohort client-metrics`; with --broker both against Apache Kafka too."""

from __future__ import annotations

import json

from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker as AnyBroker
from tests.interop.process import until


def listed(run: Run, bootstrap: str, name: str) -> dict[str, str] | None:
    told: list[dict[str, str]] = json.loads(succeeded(run("client-metrics", "list", "--json", bootstrap=bootstrap)).out)
    return next((each for each in told if each["name"] == name), None)


def test_a_subscription_is_set_shown_changed_and_deleted(run: Run, any_broker: AnyBroker, name: str) -> None:
    at = any_broker.bootstrap
    match = f"client_id={name}-none"
    done = succeeded(
        run("client-metrics", "set", name, "--metrics", "a.,b.", "--interval", "30000", "--match", match, bootstrap=at)
    )
    assert done.lines == [f"{name}: metrics=a.,b.", f"{name}: interval.ms=30000", f"{name}: match={match}"]
    made = {"name": name, "metrics": "a.,b.", "interval.ms": "30000", "match": match}
    # Apache Kafka answers before its brokers know a change.
    until(20, "set", lambda: listed(run, at, name) == made)
    succeeded(run("client-metrics", "set", name, "--interval", "60000", bootstrap=at))
    until(20, "changed", lambda: listed(run, at, name) == made | {"interval.ms": "60000"})
    shown = succeeded(run("client-metrics", "show", name, bootstrap=at)).lines
    assert [line.split() for line in shown[1:]] == [["metrics", "a.,b."], ["interval.ms", "60000"], ["match", match]]
    rows = succeeded(run("client-metrics", "list", bootstrap=at)).lines
    assert [name, "a.,b.", "60000", match] in [row.split() for row in rows]
    assert succeeded(run("client-metrics", "delete", name, bootstrap=at)).lines == [f"{name} is deleted."]
    until(20, "deleted", lambda: listed(run, at, name) is None)
    for command in ("show", "delete"):
        refused = run("client-metrics", command, name, bootstrap=at)
        assert (refused.code, refused.out) == (1, "")
        assert f"There is no subscription {name}" in refused.err


def test_what_is_wrong_is_said_and_changes_nothing(run: Run, any_broker: AnyBroker, name: str) -> None:
    at = any_broker.bootstrap
    nothing = run("client-metrics", "set", name, bootstrap=at)
    assert (nothing.code, nothing.out) == (2, "")
    assert "needs --metrics, --interval or --match" in nothing.err
    often = run("client-metrics", "set", name, "--interval", "99", bootstrap=at)
    assert (often.code, often.out) == (2, "")
    assert "100" in often.err
    assert listed(run, at, name) is None
