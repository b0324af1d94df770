"""Live state of a cluster: what each sink is told, and when."""

from kohort.model import Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import Committed, GenerationWritten, GroupDeleted
from kohort.watch.findings import findings
from kohort.watch.live import (
    EndsSampled,
    GroupsChanged,
    Live,
    LiveEvent,
    ProblemFound,
    ProblemSolved,
    Rebalanced,
    SourceKind,
)

ORDERS = TopicPartition("orders", 0)


def told(live: Live) -> list[LiveEvent]:
    events: list[LiveEvent] = []

    def sink(event: LiveEvent, _at: Millis) -> None:
        events.append(event)

    live.subscribe(sink)
    return events


def test_a_commit_changes_its_group() -> None:
    live = Live()
    events = told(live)
    live.apply([Committed("g", 10, ORDERS, 5)], 20)
    assert events == [GroupsChanged(frozenset({"g"}))]
    assert live.groups["g"].commits[ORDERS].offset == 5


def test_ends_give_lags_to_the_snapshot() -> None:
    live = Live()
    events = told(live)
    live.apply([Committed("g", 10, ORDERS, 5)], 20)
    live.sampled({ORDERS: 9}, 30)
    assert events[-1] == EndsSampled()
    (progress,) = live.snapshot(30).progress(live.groups["g"])
    assert progress.lag is not None
    assert progress.lag.records == 4


def test_records_that_are_deleted_while_the_watcher_runs_are_lost() -> None:
    live = Live()
    live.apply([Committed("g", 10, ORDERS, 5)], 20)
    live.started({ORDERS: 0, TopicPartition("orders", 1): 3})
    live.sampled({ORDERS: 9}, 30)
    live.started({ORDERS: 7, TopicPartition("orders", 1): 3})
    [lost] = findings(live.groups["g"], [], 40, ends=live.ends)
    assert (lost.code, lost.evidence["records"]) == ("offset-out-of-range", 2)
    assert live.starts == {ORDERS: 7, TopicPartition("orders", 1): 3}


def test_a_group_whose_records_are_not_followed_has_the_type_and_state_that_brokers_list() -> None:
    live = Live()
    events = told(live)
    live.listed("g", "streams", "Stable", 10)
    assert not events, "nothing is committed yet"
    live.apply([Committed("g", 10, ORDERS, 5)], 20)
    assert (live.groups["g"].shown_type, live.groups["g"].state) == (None, "Empty")
    live.listed("g", "streams", "Stable", 30)
    assert events[-1] == GroupsChanged(frozenset({"g"}))
    live.apply([Committed("g", 40, ORDERS, 6)], 40)
    [group] = live.snapshot(50).to_json()["groups"]
    assert (group["type"], group["state"]) == ("streams", "Stable")
    live.listed("g", None, None, 60)
    assert (live.groups["g"].shown_type, live.groups["g"].state) == (None, "Empty")
    live.apply([GenerationWritten("g", 70, 1, "consumer", "range", None, ())], 70)
    live.listed("g", "streams", "Stable", 80)
    assert (live.groups["g"].shown_type, live.groups["g"].state) == ("classic", "Empty")


def test_a_record_that_says_more_is_reported_again() -> None:
    live = Live()
    events = told(live)
    live.rebalanced([RebalanceRecord("g", 1, None, 10)], 10)
    live.rebalanced([RebalanceRecord("g", 1, 5, 10)], 20)
    live.rebalanced([RebalanceRecord("g", 1, 5, 30)], 30)  # a static member returned, in the same generation
    assert [event.again for event in events if isinstance(event, Rebalanced)] == [False, True, False]


def test_problems_and_states_of_sources_are_reported_once_per_change() -> None:
    live = Live()
    events = told(live)
    for now in (1, 2):
        live.problem("Topic orders cannot be read.", now)
        live.source(SourceKind.LOG, "following", now)
    live.source(SourceKind.LOG, "failed", 3, "No broker answers.")
    assert [type(event).__name__ for event in events] == ["ProblemFound", "SourceChanged", "SourceChanged"]
    assert events[0] == ProblemFound("Topic orders cannot be read.")
    assert live.sources[SourceKind.LOG].since == 3
    live.source(SourceKind.LOG, "failed", 4, "No broker answers in time.")
    source = live.sources[SourceKind.LOG]
    assert (source.since, source.detail) == (3, "No broker answers in time.")


def test_a_problem_that_is_over_is_reported_once() -> None:
    live = Live()
    live.problem("Topic orders cannot be read.", 1, about="orders")
    events = told(live)
    for now in (2, 3):
        live.solved("orders", now)
    assert events == [ProblemSolved("Topic orders cannot be read.")]


def test_nobody_is_told_after_unsubscribing() -> None:
    live = Live()
    events: list[LiveEvent] = []
    stop = live.subscribe(lambda event, _at: events.append(event))
    stop()
    live.problem("Topic orders cannot be read.", 1)
    assert events == []


def written(live: Live, generation: int, at: Millis) -> None:
    live.apply([GenerationWritten("g", at, generation, "consumer", "range", None, ())], at)


def test_a_record_of_the_journal_replaces_that_of_the_log_whichever_is_first() -> None:
    live = Live()
    events = told(live)
    written(live, 1, 1_000)
    live.journalled([RebalanceRecord("g", 1, 700, 990, leader_id="told")], 1_100)
    live.journalled([RebalanceRecord("g", 2, 1_900, 1_998, leader_id="told")], 2_000)
    live.journalled([RebalanceRecord("other", 2, 1_900, 1_998)], 2_000)
    written(live, 2, 2_000)
    kept = list(live.groups["g"].rebalances)
    assert [(record.started_at, record.ended_at, record.leader_id) for record in kept] == [
        (700, 1_000, "told"),
        (1_900, 2_000, "told"),
    ]
    reported = [(event.record.generation, event.again) for event in events if isinstance(event, Rebalanced)]
    assert reported == [(1, False), (1, True), (2, False)]
    # A group that was deleted counts its generations from 1 again.
    live.apply([GroupDeleted("g", 60_000, "classic")], 60_000)
    written(live, 1, 90_000)
    assert live.groups["g"].rebalances[-1].leader_id is None
