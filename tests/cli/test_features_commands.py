"""`kohort features`; with --broker both against Apache Kafka too."""

from __future__ import annotations

import json

from tests.cli.conftest import Run, succeeded
from tests.interop.broker import Broker as AnyBroker
from tests.interop.process import until

FEATURE = "transaction.version"


def finalized(run: Run, bootstrap: str) -> int:
    told = json.loads(succeeded(run("features", "describe", "--json", bootstrap=bootstrap)).out)
    [level] = [each["finalized"] for each in told["features"] if each["feature"] == FEATURE]
    return int(level)


def test_levels_are_described_lowered_and_raised(run: Run, any_broker: AnyBroker) -> None:
    at, level = any_broker.bootstrap, ("--feature", f"{FEATURE}=1")
    lines = succeeded(run("features", "describe", bootstrap=at)).lines
    assert [FEATURE, "0", "2", "2"] in [line.split() for line in lines] and lines[-1].startswith("epoch ")
    done = succeeded(run("features", "downgrade", *level, "--dry-run", bootstrap=at))
    assert done.lines == [f"{FEATURE} can be downgraded to 1."]
    refused = run("features", "upgrade", *level, bootstrap=at)
    assert (refused.code, refused.out) == (1, "") and "Invalid update version 1 for feature" in refused.err
    assert finalized(run, at) == 2
    try:
        done = succeeded(run("features", "downgrade", *level, bootstrap=at))
        assert done.lines == [f"{FEATURE} was downgraded to 1."]
        # Apache Kafka answers before its brokers know a change.
        until(20, "lowered", lambda: finalized(run, at) == 1)
    finally:
        done = succeeded(run("features", "upgrade", "--feature", f"{FEATURE}=2", bootstrap=at))
    assert done.lines == [f"{FEATURE} was upgraded to 2."]
    until(20, "raised", lambda: finalized(run, at) == 2)


def test_a_level_is_a_number(run: Run, any_broker: AnyBroker) -> None:
    for level in ("two", "-1", "40000", ""):
        told = run("features", "upgrade", "--feature", f"{FEATURE}={level}", bootstrap=any_broker.bootstrap)
        assert told.code == 2 and "is a number from 0 to 32767" in told.err
    assert run("features", "upgrade", "--feature", FEATURE, bootstrap=any_broker.bootstrap).code == 2


def test_a_feature_is_named_once(run: Run, any_broker: AnyBroker) -> None:
    twice = ("--feature", f"{FEATURE}=1", "--feature", f"{FEATURE}=0")
    refused = run("features", "downgrade", *twice, bootstrap=any_broker.bootstrap)
    assert (refused.code, refused.out) == (2, "") and "names a feature more than once" in refused.err
    assert finalized(run, any_broker.bootstrap) == 2
