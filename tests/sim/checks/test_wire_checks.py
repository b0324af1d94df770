"""The test kit's checks in a world: which violations fail it."""

from collections.abc import Callable, Collection

import pytest

from kohort.coordinator import Record
from kohort.errors import ErrorCode
from kohort.group_events import Cause
from kohort.model import TopicPartition
from kohort.sim import World, draw
from kohort.sim.checks import WireChecks
from kohort.sim.environment import Blocked, isolated
from kohort.sim.plans import ApplicationSettings, Plan
from kohort.sim.steps import Effect, MemberKill, MemberSwitchProtocol, Step, TopicDelete
from kohort.sim.violation import Violation
from kohort.testing import AnswerSent, ConnectionOpened, Event, Observer, RecordsAppended, RequestReceived
from kohort.testing.invariants import Invariant
from kohort.wire.messages.group_records import GroupMetadataKey, GroupMetadataValue
from kohort.wire.messages.heartbeat import HeartbeatRequest
from kohort.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tests.testing.invariants.stream import SESSION_MS, Stream


def observed(*, owns: bool = True) -> tuple[Observer, WireChecks, list[BaseException]]:
    failures: list[BaseException] = []
    checks = WireChecks(lambda name, problem: failures.append(problem), lambda: 0.0, has_records=False)
    return checks.observer("broker-1", lambda: owns), checks, failures


def generation(number: int) -> Event:
    record = Record(GroupMetadataKey(group="g"), GroupMetadataValue(generation=number))
    return RecordsAppended(number, 1, 0, [record])


def with_a_wrong_generation(client_id: str) -> list[Event]:
    """Return the events of a member that sends a heartbeat without its generation."""
    return [
        ConnectionOpened(1, 1, 1, "127.0.0.1:1"),
        RequestReceived(2, 1, 1, 1, client_id, 9, JoinGroupRequest(group_id="g", protocol_type="consumer")),
        AnswerSent(3, 1, 1, 1, JoinGroupResponse(generation_id=1, member_id="m")),
        RequestReceived(4, 1, 1, 2, client_id, 4, HeartbeatRequest(group_id="g", generation_id=-1, member_id="m")),
    ]


def test_a_broker_that_breaks_an_invariant_fails_its_world() -> None:
    observe, checks, _ = observed()
    observe(generation(5))
    observe(generation(4))
    assert checks.violation is not None and checks.violation.invariant == "S4"
    assert "fell from 5 to 4" in str(checks.violation)


def test_what_a_broker_writes_that_has_lost_the_log_does_not_count() -> None:
    observe, checks, _ = observed(owns=False)
    observe(generation(5))
    observe(generation(4))
    assert checks.violation is None


def test_members_of_the_world_must_be_honest() -> None:
    observe, checks, _ = observed()
    for event in with_a_wrong_generation("member-3.1"):
        observe(event)
    assert checks.violation is not None and checks.violation.invariant == "S5"


def test_bad_clients_need_not_be_honest() -> None:
    observe, checks, _ = observed()
    for event in with_a_wrong_generation("stranger"):
        observe(event)
    assert checks.violation is None


def test_a_member_may_fetch_while_the_network_holds_the_answer_that_removes_it() -> None:
    stream = _OfWorld()
    stream.describes(2)
    member = stream.peer("member-1.0")
    member.heartbeats("a", 0, 1, assigned=[0])
    member.fetches(0, 10)
    stream.gone("a", Cause.SESSION_EXPIRED)
    member.heartbeats("a", 1, code=ErrorCode.UNKNOWN_MEMBER_ID)
    stream.passes(120_000)
    member.fetches(10, 10)
    assert stream.broken() == [(Invariant.OWNED_FETCHES, "client")]
    assert stream.of_world.violation is None


@pytest.mark.parametrize(("planned", "fails"), [((), True), (("g",), False), (("other",), True)])
def test_only_members_whose_plan_says_so_may_share_an_instance_id(planned: tuple[str, ...], fails: bool) -> None:
    stream = _OfWorld(planned)
    peers = [stream.peer("member-1.0"), stream.peer("member-2.0")]
    for number in range(4):
        peers[number % 2].joins(f"m-{number}", 1, instance_id="i")
        if number:
            stream.gone(f"m-{number - 1}", Cause.STATIC_MEMBER_RETURNED, instance_id="i")
            peers[(number - 1) % 2].beats(f"m-{number - 1}", 1, ErrorCode.UNKNOWN_MEMBER_ID)
    found = stream.of_world.violation
    assert (found is not None and found.invariant == "S12") == fails


@pytest.mark.parametrize("through_gateways", [False, True])
def test_only_behind_a_gateway_may_a_member_be_left_behind_by_its_client(*, through_gateways: bool) -> None:
    stream = _OfWorld(through_gateways=through_gateways)
    member = stream.peer("member-1.0")
    member.joins("m-1", 1)
    member.joins("m-2", 2)
    stream.passes(SESSION_MS)
    stream.gone("m-1", Cause.SESSION_EXPIRED)
    found = stream.of_world.violation
    assert (found is None) == through_gateways


@pytest.mark.parametrize("could_act", [True, False])
def test_only_a_member_that_could_send_sync_group_since_it_joined_must_have_sent_it(*, could_act: bool) -> None:
    asked: list[tuple[str, float]] = []

    def acts(client_id: str, since: float) -> bool:
        asked.append((client_id, since))
        return could_act

    stream = _OfWorld(could_act=acts)
    member = stream.peer("member-1.0")
    member.joins("m-1", 1)
    joined_at = stream.at
    stream.passes(SESSION_MS)
    stream.gone("m-1", Cause.SYNC_MISSED)
    assert stream.broken() == [(Invariant.SYNC_AFTER_JOIN, "undecided")]
    [(client_id, since)] = asked
    assert client_id == "member-1.0" and 0 <= joined_at / 1000 - since < 0.01
    found = stream.of_world.violation
    assert (found is not None and found.invariant == "L4") == could_act


@pytest.mark.parametrize("fault", ["none", "suspended", "powered off", "blocked", "late answer"])
def test_a_member_could_act_if_its_process_ran_and_the_network_held_nothing(fault: str) -> None:
    world = World(Plan(1, 10.0, 1, {}, {"orders": 1}, [ApplicationSettings("g", ("orders",))], [1.0]))
    with isolated(1, world._failed):
        world.brokers.begin()
        world.start_member(0)
        world.pass_time(2.0)
        application, process = world.applications[0], world.processes[0]
        assert application is not None and application.membership is not None
        match fault:
            case "suspended":
                process.stop()
                process.resume()
            case "powered off":
                world.end_member(0, silently=True)
            case "blocked":
                world.block(process.name, Blocked.BOTH, 0.5)
            case "late answer":
                world.network.message_faults.add(Effect.RESPONSE_LATE, "Heartbeat", 60.0)
        world.pass_time(15.0)
        assert world._could_act("member-0.0", 1.0) == (fault == "none")
        assert world._could_act("member-0.0", 16.0) == (fault in ("none", "suspended", "blocked"))
        world._tear_down()


@pytest.mark.parametrize(
    ("member", "step", "fails"),
    [
        (ApplicationSettings("g", ("orders",), protocol="consumer"), TopicDelete(1.0, "orders"), False),
        (ApplicationSettings("g", ("orders",)), TopicDelete(1.0, "orders"), True),
        (ApplicationSettings("g", ("orders",), protocol="consumer"), MemberKill(1.0, 1, 1.0), True),
    ],
)
def test_commits_go_back_only_in_a_mixed_group_whose_topic_is_deleted(
    member: ApplicationSettings, step: Step, *, fails: bool
) -> None:
    members = [ApplicationSettings("g", ("orders",)), member]
    plan = Plan(1, 10.0, 1, {}, {"orders": 1}, members, [1.0, 1.0], steps=[step])
    stream = _OfWorld(groups_of_replaced_topics=plan.groups_of_replaced_topics)
    stream.describes()
    peer = stream.peer("member-0.1")
    peer.joins("m-1", 1)
    peer.syncs("m-1", 1, TopicPartition("orders", 0))
    peer.fetches(0, 100)
    peer.commits(50, "m-1", 1)
    peer.commits(20, "m-1", 1)
    assert stream.broken() == [(Invariant.FORWARD_COMMITS, "client")]
    found = stream.of_world.violation
    assert (found is not None and found.invariant == "S8") == fails


def test_a_member_that_switches_protocols_makes_its_group_mixed() -> None:
    members = [ApplicationSettings(group, ("orders",)) for group in ("g", "h")]
    steps: list[Step] = [TopicDelete(1.0, "orders"), MemberSwitchProtocol(2.0, 1, 1.0)]
    plan = Plan(1, 10.0, 1, {}, {"orders": 1}, members, [1.0, 1.0], steps=steps)
    assert plan.groups_of_replaced_topics == {"h"}


class _OfWorld(Stream):
    """Stream whose events a world observes, too."""

    def __init__(
        self,
        shared_instances: Collection[str] = (),
        *,
        groups_of_replaced_topics: Collection[str] = (),
        through_gateways: bool = False,
        could_act: Callable[[str, float], bool] = lambda client_id, since: True,
    ) -> None:
        super().__init__()
        self.of_world = WireChecks(
            lambda name, problem: None,
            lambda: self.at / 1000,
            has_records=True,
            shared_instances=shared_instances,
            groups_of_replaced_topics=groups_of_replaced_topics,
            through_gateways=through_gateways,
            could_act=could_act,
        )
        self._observe = self.of_world.observer("broker-1", lambda: True)

    def feed(self, event: Event) -> None:
        super().feed(event)
        self._observe(event)


def test_an_error_of_the_checks_fails_the_world() -> None:
    observe, _, failures = observed()
    observe(None)  # type: ignore[arg-type]  # no event
    assert [type(problem) for problem in failures] == [TypeError]


def test_a_disk_that_lost_records_lets_the_checks_begin_anew() -> None:
    observe, checks, _ = observed()
    observe(generation(5))
    checks.lost()
    observe(generation(4))
    assert checks.violation is None


def test_a_world_fails_by_what_its_wire_says(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Violation("S4", "planted")
    monkeypatch.setattr(
        WireChecks, "observer", lambda self, name, owns: lambda event: setattr(self, "violation", wrong)
    )
    assert World(draw(1, 1.0)).run().violation is wrong
