"""Live state of a cluster: what each sink is told, and when."""

from kohort.model import Millis, TopicPartition
from kohort.recorder import RebalanceRecord
from kohort.watch.changes import Committed
from kohort.watch.live import EndsSampled, GroupsChanged, Live, LiveEvent, ProblemFound, Rebalanced, SourceKind

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


def test_nobody_is_told_after_unsubscribing() -> None:
    live = Live()
    events: list[LiveEvent] = []
    stop = live.subscribe(lambda event, _at: events.append(event))
    stop()
    live.problem("Topic orders cannot be read.", 1)
    assert events == []
