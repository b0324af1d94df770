"""The transcripts of transactions, played to our broker in virtual time, and to both brokers in real time.

`pytest tests/scenarios --rewrite` writes what our broker says in virtual time into the files.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kohort.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.interop.kafka import Unavailable, jars, running_kafka
from tests.interop.kohort import running_kohort
from tests.scenarios.explained import explained
from tests.scenarios.transaction_talk import TransactionTalk
from tests.scenarios.transaction_wires import SocketWire, VirtualWire
from tests.scenarios.transcripts import played_by

FOLDER = Path(__file__).parent / "transactions"
NAMES = sorted(path.name for path in FOLDER.glob("*.txt"))
UNVERIFIED = sorted(name for name in NAMES if name.startswith("unverified_"))
"""Played to brokers with transaction.partition.verification.enable=false: only there, transactions hang."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    # Each partition takes a while to load, on both brokers.
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}
VERIFICATION = "transaction.partition.verification.enable"
_BROKER = 4
"""Resource type of a broker; without a name, it is all of them."""
AT_ONCE = 8
"""So many transcripts are played at the same time."""

DIFFERENT: dict[str, str] = {}
"""Transcripts in which Kafka answers otherwise, and why we do not follow it."""


def settings_of(name: str) -> dict[str, str]:
    """Return the settings of the broker to which this transcript is played."""
    return SETTINGS | ({VERIFICATION: "false"} if name in UNVERIFIED else {})


def text_of(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_transcript_is_what_happens(name: str, pytestconfig: pytest.Config) -> None:
    wire = VirtualWire(settings_of(name))
    now = played_by(TransactionTalk(wire).play, text_of(name))
    wire.close()
    if pytestconfig.getoption("--rewrite"):
        (FOLDER / name).write_text(now, encoding="utf-8")
    elif now != text_of(name):
        pytest.fail(explained(name, text_of(name), now), pytrace=False)


# Real brokers


def play(bootstrap: str, name: str) -> str:
    """Play a transcript to a broker; what ends the play early is the last line."""
    wire = SocketWire(bootstrap)
    try:
        return played_by(TransactionTalk(wire, f"{name.removesuffix('.txt')}.").play, text_of(name))
    except (AssertionError, OSError) as problem:
        return f"{problem!r}"
    finally:
        wire.close()


def play_all(bootstrap: str, names: list[str]) -> dict[str, str]:
    """Play the transcripts, many at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda name: play(bootstrap, name), names), strict=True))


def chosen_for(test: object, request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, str], list[str]]]:
    """Yield the settings of each broker that this run of the suite needs, and its transcripts."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.function is test]
    names = [str(item.callspec.params["name"]) for item in items]
    for verified in (True, False):
        if chosen := [name for name in names if (name not in UNVERIFIED) is verified]:
            yield settings_of(chosen[0]), chosen


@pytest.fixture(scope="module")
def kafka_says(request: pytest.FixtureRequest) -> dict[str, str]:
    try:
        jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    said: dict[str, str] = {}
    for settings, names in chosen_for(test_kafka_answers_the_same, request):
        # Ours needs no such interval: each transaction has a timer.
        interval = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}
        with running_kafka(settings | interval) as kafka:
            said |= play_all(kafka.bootstrap, names)
    return said


@pytest.fixture(scope="module")
def our_broker_says(request: pytest.FixtureRequest) -> dict[str, str]:
    said: dict[str, str] = {}
    with running_kohort(**{name.replace(".", "_"): value for name, value in SETTINGS.items()}) as broker:
        for settings, names in chosen_for(test_our_broker_answers_the_same, request):
            if VERIFICATION in settings:
                turn_off_verification(broker.bootstrap)
            said |= play_all(broker.bootstrap, names)
    return said


def turn_off_verification(bootstrap: str) -> None:
    """Change the setting of the running broker, which costs less than to start another one."""
    alteration = AlterableConfig(name=VERIFICATION, value="false")
    resource = AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=[alteration])
    wire = SocketWire(bootstrap)
    answer = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    wire.close()
    assert answer.responses[0].error_code == 0, answer


def check(name: str, said: str, *, differs: bool = False) -> None:
    if differs:
        assert said != text_of(name), f"no longer different: {DIFFERENT[name]}"
    elif said != text_of(name):
        pytest.fail(explained(name, text_of(name), said), pytrace=False)


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_kafka_answers_the_same(name: str, kafka_says: dict[str, str]) -> None:
    check(name, kafka_says[name], differs=name in DIFFERENT)


@pytest.mark.interop
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_our_broker_answers_the_same(name: str, our_broker_says: dict[str, str]) -> None:
    check(name, our_broker_says[name])


def test_transcripts_exist() -> None:
    assert len(NAMES) > 12
    assert len(UNVERIFIED) > 0
