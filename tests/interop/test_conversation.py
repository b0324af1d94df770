"""Apache Kafka and Kohort are told the same, and answer the same, or the difference is explained.

The scenes stand in conversation/scenes, what differs on purpose in conversation/expected.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from kohort.lab.brokers import running_gateway
from tests.conftest import need_jars
from tests.interop.broker import Broker
from tests.interop.conversation import scenes
from tests.interop.conversation.expected import AT_DEFAULTS, EXPECTED, SEEN_IN_OTHER_TESTS, Expected
from tests.interop.conversation.gateway import INTENDED, TWO_CLUSTERS
from tests.interop.conversation.play import Difference, differences, play
from tests.interop.conversation.settings import ADMINS, PARTS, PROMPT_OFF, kafka_of
from tests.interop.conversation.stage import SCENES
from tests.interop.kohort import running_kohort

assert scenes.__all__, "imported for what it registers"


WAYS: Mapping[str, tuple[Mapping[str, str], tuple[Expected, ...]]] = {
    "at Kohort's defaults": ({}, EXPECTED + AT_DEFAULTS),
    "heartbeats not held": (PROMPT_OFF, EXPECTED),
}
"""Settings of Kohort alone, and what differs on purpose with them."""


async def started(running: contextlib.ExitStack, *brokers: contextlib.AbstractContextManager[Broker]) -> list[Broker]:
    """Start brokers at the same time; `running` ends those that have started, also if another one cannot."""
    starts = (asyncio.to_thread(running.enter_context, broker) for broker in brokers)
    results = await asyncio.gather(*starts, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return [result for result in results if not isinstance(result, BaseException)]


async def differences_in(part: str) -> dict[str, list[Difference]]:
    """Play one part to Kafka, and to a Kohort of each way, at once."""
    admin = ADMINS.get(part, "")
    with contextlib.ExitStack() as running:
        starts: list[contextlib.AbstractContextManager[Broker]] = [kafka_of(part)]
        for kohorts_own, _ in WAYS.values():
            settings = {name.replace(".", "_"): value for name, value in {**PARTS[part], **kohorts_own}.items()}
            starts.append(running_kohort(**settings))
        brokers = await started(running, *starts)
        kafkas, *ours = await asyncio.gather(*(play(broker.bootstrap, SCENES[part], admin) for broker in brokers))
    return {way: list(differences(kafkas, kohorts)) for way, kohorts in zip(WAYS, ours, strict=True)}


@pytest.mark.long("a dozen Apache Kafkas, alone on the machine")
@pytest.mark.kafka
@pytest.mark.interop
@pytest.mark.timeout(600)  # each part takes half a minute at most where the machine is quiet
async def test_kafka_and_kohort_answer_alike(request: pytest.FixtureRequest) -> None:
    need_jars(request.config)
    found: dict[str, list[Difference]] = {way: [] for way in WAYS}
    for part in PARTS:
        for way, of_part in (await differences_in(part)).items():
            found[way] += of_part
    for way, (_, expected) in WAYS.items():
        unexplained = [one for one in found[way] if not any(row.covers(one) for row in expected)]
        assert not unexplained, "\n".join((way, *map(str, unexplained)))
        unused = [row for row in expected if not any(row.covers(one) for one in found[way])]
        assert not unused, f"{way}: no longer different: {unused}"


async def differences_through_a_gateway(part: str) -> list[Difference]:
    """Play one part to Apache Kafka, and to another one behind a gateway, at once."""
    with contextlib.ExitStack() as running:
        kafka, other = await started(running, kafka_of(part), kafka_of(part))
        address, _ = running.enter_context(running_gateway(other.bootstrap))
        admin = ADMINS.get(part, "")
        told = await asyncio.gather(*(play(where, SCENES[part], admin) for where in (kafka.bootstrap, address)))
    return list(differences(*told))


@pytest.mark.long("a dozen pairs of Apache Kafka, alone on the machine")
@pytest.mark.kafka
@pytest.mark.interop
@pytest.mark.timeout(900)
async def test_kafka_answers_through_a_gateway_as_without_it(request: pytest.FixtureRequest) -> None:
    need_jars(request.config)
    found = [difference for part in PARTS for difference in await differences_through_a_gateway(part)]
    expected = INTENDED + TWO_CLUSTERS
    unexplained = [difference for difference in found if not any(row.covers(difference) for row in expected)]
    assert not unexplained, "\n".join(map(str, unexplained))
    unused = [row for row in INTENDED if not any(row.covers(difference) for difference in found)]
    assert not unused, f"no longer different: {unused}"


def test_every_difference_is_documented() -> None:
    whys = [row.why for row in EXPECTED + AT_DEFAULTS] + list(SEEN_IN_OTHER_TESTS)
    assert documented("interop.md") == {" ".join(why.split()) for why in whys}


def test_every_difference_through_a_gateway_is_documented() -> None:
    assert documented("gateway.md") == {" ".join(row.why.split()) for row in INTENDED}


def documented(page: str) -> set[str]:
    """Return the differences that a page of the documentation lists."""
    text = Path(__file__).parents[2].joinpath("docs", page).read_text(encoding="utf-8")
    section = text.partition("\n## Differences\n")[2].partition("\n## ")[0]
    return {" ".join(item.split()) for item in re.findall(r"^- (.+(?:\n  .+)*)", section, re.MULTILINE)}
