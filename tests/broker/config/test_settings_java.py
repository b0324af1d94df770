"""Settings beside the definitions in Apache Kafka's own jars: docs/configuration.md names every difference."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kohort.broker.config.broker_settings import SETTINGS
from kohort.broker.config.groups import GROUP_SETTINGS
from kohort.broker.config.setting import ABSENT, INT32, INT64, Setting, as_text
from kohort.broker.config.topics import TOPIC_SETTINGS
from kohort.broker.config.without_effect import ABSENT_UNLESS_SET, NULL_UNLESS_SET
from tests.interop.kafka import jars

pytestmark = [pytest.mark.java, pytest.mark.usefixtures("kafka_tools")]

OURS: Mapping[str, Mapping[str, Setting]] = {"broker": SETTINGS, "topic": TOPIC_SETTINGS, "group": GROUP_SETTINGS}
_UNBOUNDED = {None, INT32, INT64, 32_767}
"""Upper bounds that are those of the type. A replication factor is a short."""


_OF_THE_AUTHORIZER = {"allow.everyone.if.no.acl.found", "super.users"}
"""Settings that Kafka's StandardAuthorizer reads itself: they are not in the broker's definitions."""


class Definition(NamedTuple):
    """One setting of Apache Kafka."""

    default: str
    validator: str
    dynamic: bool


@pytest.fixture(scope="module")
def kafkas(kafka_tools: None) -> Mapping[tuple[str, str], Definition]:
    source = Path(__file__).with_name("Settings.java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars()}/*", str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert ran.returncode == 0, ran.stderr
    found = {}
    for line in ran.stdout.splitlines():
        kind, name, type_, default, validator, mode = line.split("\t")
        if default == "null":
            default = ""
        elif type_ == "LIST":
            default = default.strip("[]").replace(", ", ",")
        found[kind, name] = Definition(default, validator, mode != "read-only")
    return found


def differences(name: str, setting: Setting, theirs: Definition) -> list[str]:
    """Return the expected text about Apache Kafka."""
    found = []
    if as_text(setting.default) != theirs.default:
        found.append(f"default {theirs.default or 'null'}")
    if bounds := re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\](.*)", theirs.validator):
        low, high, more = bounds.groups()
        if more:
            found.append(f"{low} to {high},{more}")
        elif setting.low != int(low):
            found.append(f"at least {low}")
        if high is None and setting.high not in _UNBOUNDED:
            found.append("no upper limit")
        assert high is None or setting.high == int(high), name
    elif choices := re.fullmatch(r"(?:\(case insensitive\) )?\[(.*)\]", theirs.validator):
        known = {choice.lower() for choice in choices[1].split(", ")}
        ours = {choice.lower() for choice in setting.choices}
        if setting.choices:
            assert ours <= known, name
            found += sorted(known - ours)
    return found


@pytest.mark.parametrize("kind", OURS)
def test_the_difference_from_apache_kafka_is_in_the_text(
    kind: str, kafkas: Mapping[tuple[str, str], Definition]
) -> None:
    for name, setting in OURS[kind].items():
        if kind == "broker" and name in ABSENT_UNLESS_SET:
            continue  # Kafka has no definition of these: they exist only as changes at run time
        theirs = kafkas.get((kind, name))
        if theirs is None and name in _OF_THE_AUTHORIZER:
            continue
        assert (theirs is None) == (setting.kafka == ABSENT), name
        if theirs is None:
            continue
        derived = kind == "broker" and name in NULL_UNLESS_SET
        missing = [difference for difference in differences(name, setting, theirs) if difference not in setting.kafka]
        assert [difference for difference in missing if not (derived and difference == "default null")] == [], name
        if kind == "broker":
            assert setting.live == theirs.dynamic or (theirs.dynamic and "also dynamic" in setting.kafka), name
