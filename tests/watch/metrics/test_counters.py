"""Counters of groups: each rebalance counts once, and no counter goes back."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kohort.group_events import Cause, MemberFacts
from kohort.recorder import PartitionChange, RebalanceRecord, Trigger
from kohort.watch.metrics.counters import GroupCounters, cause_of, protocol_of

A, B = MemberFacts("a", "client-a", "/h"), MemberFacts("b", "client-b", "/h")


def rebalance(
    generation: int = 5, *changes: PartitionChange, ended_at: int = 10_000, started_at: int | None = 9_000
) -> RebalanceRecord:
    joined = Trigger(Cause.MEMBER_JOINED.value, "b")
    return RebalanceRecord(
        "g", generation, started_at, ended_at, (joined,), "range", "a", before=(A, B), after=(A, B), partitions=changes
    )


def moved(first_read_at: int | None = None) -> PartitionChange:
    return PartitionChange("orders", 0, "a", "b", 9_200, 10_000, first_read_at)


def test_an_amended_rebalance_counts_once_and_adds_what_is_new() -> None:
    counters = GroupCounters()
    counters.take(rebalance(5, moved(), started_at=None), "eager")
    assert (sum(counters.rebalances.values()), counters.dark_ms, sum(counters.seconds.counts)) == (1, 0, 0)
    counters.take(rebalance(5, moved(10_700)), "eager")
    counters.take(rebalance(5, moved(10_700)), "eager")
    assert counters.rebalances == {("member joined", "eager"): 1}
    assert (counters.dark_ms, counters.needless_moves, counters.needed_moves) == (1_500, 1, 0)
    assert (counters.seconds.counts[4], counters.seconds.sum) == (1, 1.0)


def test_moves_that_an_amended_record_no_longer_has_stay_counted() -> None:
    counters = GroupCounters()
    joined = replace(rebalance(5, moved()), before=(A,))
    counters.take(joined, "eager")
    counters.take(replace(joined, partitions=()), "eager")
    assert (counters.needed_moves, counters.needless_moves) == (1, 0)


def test_a_cause_that_is_known_later_does_not_count_again() -> None:
    counters = GroupCounters()
    record = rebalance()
    counters.take(replace(record, triggers=(Trigger(Cause.MEMBER_GONE.value),)), "eager")
    counters.take(replace(record, triggers=(Trigger(Cause.SESSION_EXPIRED.value),)), "eager")
    assert counters.rebalances == {("member left or expired", "eager"): 1}


def test_a_group_that_was_created_again_counts_its_generations_again() -> None:
    counters = GroupCounters()
    counters.take(rebalance(1, ended_at=10_000), "eager")
    counters.take(rebalance(1, ended_at=500_000, started_at=None), "eager")
    assert sum(counters.rebalances.values()) == 2


def test_old_records_that_are_amended_late_do_not_count_again() -> None:
    counters = GroupCounters()
    for generation in range(300):
        counters.take(rebalance(generation, ended_at=100_000 * generation, started_at=None), "eager")
    counters.take(rebalance(3, moved(310_000), ended_at=300_000), "eager")
    assert sum(counters.rebalances.values()) == 300
    assert counters.dark_ms == 0


def test_moves_to_a_member_that_came_one_generation_ago_are_needed() -> None:
    counters = GroupCounters()
    counters.take(replace(rebalance(5), before=(A,)), "cooperative")
    follow_up = rebalance(6, moved())
    counters.take(follow_up, "cooperative")
    counters.take(replace(rebalance(7), partitions=()), "cooperative")
    counters.take(rebalance(6, moved(10_500)), "cooperative")
    assert (counters.needed_moves, counters.needless_moves) == (1, 0)


def test_members_of_eager_groups_are_paused_until_the_assignment() -> None:
    counters = GroupCounters()
    kept = PartitionChange("orders", 1, "b", "b", 9_900, 10_000)
    counters.take(rebalance(5, moved(), kept), "eager")
    assert counters.paused_ms == 800 + 100
    gone = PartitionChange("orders", 2, "gone", "b", 9_000, 10_000)
    counters.take(rebalance(6, gone), "eager")
    assert counters.paused_ms == 900, "a member that went does not pause"


changes = st.builds(
    PartitionChange,
    st.just("orders"),
    st.integers(0, 3),
    st.sampled_from(["a", "b", None]),
    st.sampled_from(["a", "b", None]),
    st.none() | st.integers(8_000, 10_000),
    st.just(10_000),
    st.none() | st.integers(9_000, 12_000),
)
records = st.builds(
    lambda generation, partitions, started_at: rebalance(
        generation, *partitions, ended_at=10_000 + generation, started_at=started_at
    ),
    st.integers(1, 3),
    st.lists(changes, max_size=4),
    st.none() | st.integers(8_000, 9_000),
)


@given(st.lists(records, max_size=12))
def test_no_counter_ever_goes_back(reported: list[RebalanceRecord]) -> None:
    counters = GroupCounters()
    last = (0, 0, 0, 0, 0, 0.0)
    for record in reported:
        counters.take(record, "eager")
        now = (
            sum(counters.rebalances.values()),
            counters.dark_ms,
            counters.paused_ms,
            counters.needed_moves,
            counters.needless_moves,
            counters.seconds.sum,
        )
        assert all(after >= before for before, after in zip(last, now, strict=True))
        last = now
    assert last[0] == len({record.generation for record in reported})


def test_labels_have_few_values_whatever_a_journal_says() -> None:
    assert cause_of(replace(rebalance(), triggers=(Trigger("x" * 1_000),))) == "unknown"
    assert cause_of(replace(rebalance(), triggers=())) == "unknown"
    assert cause_of(replace(rebalance(), triggers=(), protocol="cooperative-sticky")) == "follow-up"
    assert [
        protocol_of("classic", "range"),
        protocol_of("classic", "cooperative-sticky"),
        protocol_of("classic", None),
        protocol_of("consumer", "uniform"),
    ] == ["eager", "cooperative", "classic", "consumer"]
