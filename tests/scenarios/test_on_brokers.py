"""The same transcripts played to brokers: clients hear the same of ours, and of Apache Kafka or it is said why not.

Only what clients hear is compared. Member ids are random on a wire, so they are numbered in the order in which they
are first heard; and time is real, so transcripts that wait for hours are left out, and many others are played at once.

A transcript is a matter of seconds: a member that is a second late may find a session over that is not in the
transcript. So a play that the machine delayed proves nothing unless it is right, and is played again; the run's last
lines name each transcript that was, and by how much it was late. A transcript that was late in all plays fails as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from kohort.coordinator import GroupSettings
from kohort.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kohort.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.interop.kafka import Unavailable, jars, running_kafka
from tests.interop.kohort import running_kohort
from tests.scenarios.conversation import Conversation, milliseconds
from tests.scenarios.explained import explained
from tests.scenarios.test_scenarios import FOLDER, SCENARIOS
from tests.scenarios.wire_coordinator import Rehearsal, WireCoordinator

LONGEST_WAIT = 25_000
DAILY_MS = 8_000
"""A transcript that takes longer is played with the long tests."""
AT_ONCE = 16
"""So many transcripts are played at the same time: most of them wait most of the time."""
LATE_S = 0.5
"""Half of the shortest time by which a transcript tells before and after."""
PLAYS = 5
"""As often a transcript is played for which the machine was late."""
OURS_ALONE = re.compile(
    r"^(config|settings|unseen|failover|delete-topic|lost:|.*\btopic-id=|join .*v=[01]\b|commit .*-\d{3,}="
    r"|commit \S+ nothing-)",
    re.MULTILINE,
)
"""Commands that reach into the shard, or that Kafka no longer serves; commits for partitions and topics that no broker
has, which a broker refuses before the shard sees them."""
NOT_HEARD = ("event:", "log:", "state:", "after ", "no groups")

DIFFERENT = {
    "classic/member_leaves_while_it_waits.txt": "Kafka never answers the SyncGroup of a member that was removed",
    "classic/join_repeated_on_another_connection.txt": "Kafka never answers the older of two joins or syncs",
    "classic/malformed_subscription.txt": "Kafka lets it in, and whoever leads cannot read it",
    "classic/owned_partitions_in_another_order.txt": "Kafka compares bytes, so an unsorted list rebalances for ever",
    "classic/pending_member_with_an_instance_id.txt": "Kafka fails with UNKNOWN_SERVER_ERROR",
    "classic/static_restart_in_the_middle_of_a_cooperative_rebalance.txt": "Kafka leaves what it owed to nobody",
    "classic/unused_id_leaves_a_stable_group.txt": "Kafka rebalances a group for one that never was in it",
    "consumer/assignor_by_vote.txt": "Kafka 4.3 keeps the old assignor until something else changes (KAFKA-20434)",
    "consumer/expression.txt": "Kafka answers a new expression before it has looked it up",
    "consumer/expression_and_names.txt": "Kafka answers a new expression before it has looked it up",
    "consumer/expression_meets_a_new_topic.txt": "Kafka answers a new expression before it has looked it up",
    "consumer/changes_its_mind_before_it_reports.txt": "Kafka takes back what was not reported, and may wait for ever",
    "consumer/told_again_to_give_up.txt": "Kafka tells an assignment once, whoever received it",
    "consumer/reports_every_time_what_it_keeps.txt": "Kafka tells an assignment once, whoever received it",
    "consumer/topic_is_deleted_before_it_is_reported.txt": "Kafka waits for a report of what is gone",
    "consumer/late_join_after_its_successor.txt": "Kafka tells an assignment once, whoever received it",
    "consumer/lost_answer.txt": "Kafka tells a member its epoch again, but not its assignment",
    "consumer/static_first_answer_lost.txt": "Kafka takes a static member for another than itself",
    "consumer/static_member_takes_another_id.txt": "Kafka 4.3 keeps the old instance id (KAFKA-20747)",
    "consumer/static_restart_asks_for_something_else.txt": "Kafka 4.3 ignores its other assignor (KAFKA-20434)",
    "consumer/static_restart_without_its_expression.txt": "Kafka keeps the expression of the process before",
    "consumer/static_restart_under_a_taken_id.txt": "Kafka leaves what the ousted member had to nobody",
}
"""Transcripts in which Kafka answers otherwise, and why we do not follow it."""


def playable() -> Iterator[str]:
    """The transcripts that make sense to a broker in real time."""
    for name in SCENARIOS:
        path = FOLDER / name
        text = path.read_text(encoding="utf-8")
        # The brokers here keep both protocols apart; the conversation plays migration, under each policy.
        migrates = path.parent.name == "migration"
        if not migrates and not OURS_ALONE.search(text) and max(waits(text), default=0) <= LONGEST_WAIT:
            yield name


def waits(text: str) -> list[int]:
    """How long the transcript waits, each time, in milliseconds."""
    return [milliseconds(word) for word in re.findall(r"^wait (\S+)", text, re.MULTILINE)]


def duration(name: str) -> int:
    """About how long it takes to play, in milliseconds."""
    return sum(waits((FOLDER / name).read_text(encoding="utf-8")))


def blocks(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The commands and their output, block by block."""
    for block in re.split(r"\n\n+", text.strip()):
        commands, _, heard = block.partition("\n----")
        yield [line for line in commands.splitlines() if not line.startswith("#")], heard.strip("\n").splitlines()


class Normaliser:
    """Normaliser that makes the output of two brokers comparable."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def normalised(self, lines: list[str]) -> list[str]:
        """Only answers, in an order of their own, with member ids numbered as they come."""
        answers = [line.strip() for line in lines if not line.strip().startswith(NOT_HEARD)]
        answers = [re.sub(r"^(admin +\S+ \S+) /\S+", r"\1", line) for line in answers if line]
        answers = [re.sub(r"(?<=admin listed )(.*)", _sorted, line) for line in answers]
        named = [re.sub(_MEMBER_ID, self._name, line) for line in sorted(answers, key=_anonymous)]
        return [re.sub(r"(?<=members=\[)(.*?)(?=\])", _sorted, line) for line in named]

    def _name(self, match: re.Match[str]) -> str:
        if match[0] not in self._names:
            self._counts[match[1]] = self._counts.get(match[1], 0) + 1
            self._names[match[0]] = f"{match[1]}#{self._counts[match[1]]}"
        return self._names[match[0]]


_MEMBER_ID = r"\b([a-z]\d?)-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d+\b)"


def _anonymous(line: str) -> str:
    return re.sub(_MEMBER_ID, r"\1", line)


def _sorted(match: re.Match[str]) -> str:
    return " ".join(sorted(match[1].split()))


@dataclass(slots=True)
class Played:
    """Expected lines of the transcript, and lines of the broker."""

    expected: list[str] = field(default_factory=list)
    actual: list[str] = field(default_factory=list)
    late_s: list[float] = field(default_factory=list)
    """By play; the last one counts."""

    @property
    def is_same(self) -> bool:
        return self.actual == self.expected

    def explained(self, name: str) -> str:
        """Return the differences; the text of assert omits most of them."""
        return explained(name, "\n".join(self.expected), "\n".join(self.actual))

    @property
    def proves_nothing(self) -> bool:
        """Whether it differs only in plays for which the machine was late."""
        return not self.is_same and self.late_s[-1] >= LATE_S

    @property
    def delays(self) -> str:
        """How late the machine was, play by play."""
        return f"played {len(self.late_s)} times, late by " + ", ".join(f"{late:.1f} s" for late in self.late_s)


def play(bootstrap: str, name: str) -> Played:
    """Play the transcript until the broker says the same, or says otherwise in time."""
    played = Played()
    while len(played.late_s) < PLAYS and (not played.late_s or played.proves_nothing):
        prefix = f"{name.removesuffix('.txt').replace('/', '.')}.{len(played.late_s)}"
        played.expected, played.actual, late_s = play_once(bootstrap, name, prefix)
        played.late_s.append(late_s)
    return played


def play_once(bootstrap: str, name: str, prefix: str) -> tuple[list[str], list[str], float]:
    """The same of one play, and how many seconds late it was."""
    rehearsal = Rehearsal(settings=GroupSettings(assignment_interval_ms=0))
    rehearsed = Conversation(rehearsal)
    coordinator = WireCoordinator(bootstrap, prefix, rehearsal)
    conversation = Conversation(coordinator)
    ours, theirs = Normaliser(), Normaliser()
    expected: list[str] = []
    actual: list[str] = []
    try:
        for commands, heard in blocks((FOLDER / name).read_text(encoding="utf-8")):
            told = []
            for command in commands:
                rehearsed.play(command)
                told += conversation.play(command)
            expected += [*commands, "----", *ours.normalised(heard), ""]
            actual += [*commands, "----", *theirs.normalised(told), ""]
    except ConnectionError as error:
        actual.append(str(error))
    finally:
        coordinator.close()
    return expected, actual, coordinator.late_s


def play_all(bootstrap: str, chosen: set[str]) -> dict[str, Played]:
    """The chosen transcripts, many at once, the longest first."""
    setup = WireCoordinator(bootstrap, "setup")
    topics = [CreatableTopic(name=name, num_partitions=10, replication_factor=1) for name in ("orders", "payments")]
    setup.handle(CreateTopicsRequest(topics=topics, timeout_ms=10_000), "topics", 7)
    warm_up(setup)
    names = sorted(chosen, key=duration, reverse=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(lambda name: play(bootstrap, name), names), strict=True))


def warm_up(setup: WireCoordinator) -> None:
    """Wait until the group coordinator is there: Kafka creates its topic on the first lookup."""
    setup.handle(FindCoordinatorRequest(coordinator_keys=["g"]), "coordinator", 6)
    conversation = Conversation(setup)
    for _ in range(60):
        if conversation.play("commit s gen=-1 orders-0=1") == ["s commit: orders-0 ok"]:
            setup.close()
            return
        list(setup.wait(500))
    raise AssertionError("the group coordinator does not come up")


def chosen_for(test: object, request: pytest.FixtureRequest) -> set[str]:
    """The transcripts that this run of the suite asks for."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function)]
    return {str(item.callspec.params["name"]) for item in items if item.function is test}


@pytest.fixture(scope="module")
def kafka_says(request: pytest.FixtureRequest) -> dict[str, Played]:
    try:
        jars()
    except Unavailable as missing:
        pytest.skip(str(missing))
    config = {
        "group.initial.rebalance.delay.ms": "3000",
        # Each partition learns of topics at its own time; of one, a request by any group shows the state for all.
        "offsets.topic.num.partitions": "1",
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.migration.policy": "disabled",
    }
    with running_kafka(config) as kafka:
        return play_all(kafka.bootstrap, chosen_for(test_kafka_answers_the_same, request))


@pytest.fixture(scope="module")
def our_broker_says(request: pytest.FixtureRequest) -> dict[str, Played]:
    settings = {"group_initial_rebalance_delay_ms": "3000", "group_consumer_assignment_interval_ms": "0"}
    # Each heartbeat is answered before the next line is played, and each request has a connection of its own.
    settings |= {"group_heartbeat_hold_ms": "0", "group_disconnect_grace_ms": "0"}
    with running_kohort(**settings, group_consumer_migration_policy="disabled") as broker:
        return play_all(broker.bootstrap, chosen_for(test_our_broker_answers_the_same, request))


def check(played: Played, remark: Callable[[str], None]) -> None:
    """Fail a transcript that the machine delayed in each play, and mention one that it delayed in some."""
    if len(played.late_s) > 1:
        remark(played.delays)
    if played.proves_nothing:
        pytest.fail(f"The machine is too busy to play this transcript: {played.delays}.")


@pytest.mark.kafka
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", list(playable()))
def test_kafka_answers_the_same(name: str, kafka_says: dict[str, Played], remark: Callable[[str], None]) -> None:
    played = kafka_says[name]
    check(played, remark)
    if name in DIFFERENT:
        assert not played.is_same, f"no longer different: {DIFFERENT[name]}"
    elif not played.is_same:
        pytest.fail(played.explained(name), pytrace=False)


@pytest.mark.interop
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long("takes so long in real time") if duration(name) > DAILY_MS else ())
        for name in playable()
    ],
)
def test_our_broker_answers_the_same(
    name: str, our_broker_says: dict[str, Played], remark: Callable[[str], None]
) -> None:
    played = our_broker_says[name]
    check(played, remark)
    if not played.is_same:
        pytest.fail(played.explained(name), pytrace=False)


def test_a_difference_on_a_broker_is_shown_whole_and_its_first_line_first() -> None:
    expected = ["join a", "----", "a: one", "", "heartbeat a", "----", "a heartbeat: ok", ""] * 5
    actual = [line.replace("a heartbeat: ok", "a heartbeat: UNKNOWN_MEMBER_ID") for line in expected]
    first, diff = Played(expected, actual).explained("x.txt").split("\n\n", 1)
    assert first.splitlines()[-2:] == ["  expected: a heartbeat: ok", "  heard:    a heartbeat: UNKNOWN_MEMBER_ID"]
    assert diff.count("+a heartbeat: UNKNOWN_MEMBER_ID") == 5
