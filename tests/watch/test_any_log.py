"""Whatever is in the log, nothing is raised: others may write to it, and compaction leaves any part of a story."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kohort.model import UUID
from kohort.recorder import RebalanceRecord
from tests.watch.log import ORDERS, Log

Step = Callable[[Log, int], object]

NAMES = st.sampled_from("abc")
EPOCHS = st.integers(-2, 4)
SHARES = st.lists(st.integers(0, 3), max_size=3, unique=True).map(tuple)


def steps() -> st.SearchStrategy[Step]:
    generations = st.dictionaries(NAMES, SHARES, max_size=3)
    return st.one_of(
        st.builds(lambda number, members: lambda log, at: log.generation(at, number, **members), EPOCHS, generations),
        st.just(lambda log, at: log.classic_deleted(at)),
        st.builds(lambda name: lambda log, at: log.member(at, name), NAMES),
        st.builds(lambda name: lambda log, at: log.member_deleted(at, name), NAMES),
        st.builds(lambda epoch, digest: lambda log, at: log.epoch(at, epoch, digest), EPOCHS, st.integers(0, 2)),
        st.builds(lambda epoch: lambda log, at: log.target(at, epoch), EPOCHS),
        st.builds(
            lambda name, last, epoch, assigned, revoking, waits: (
                lambda log, at: log.current(at, name, (last, epoch), assigned, revoking=revoking, waits=waits)
            ),
            *(NAMES, EPOCHS, EPOCHS, SHARES, SHARES, st.booleans()),
        ),
        st.builds(
            lambda partition, offset, topic_id: lambda log, at: log.commit(at, partition, offset, topic_id),
            *(st.integers(0, 3), st.none() | st.integers(0, 9), st.sampled_from([ORDERS, UUID(int=0), UUID(int=8)])),
        ),
    )


@given(st.lists(st.tuples(steps(), st.integers(-1_000, 5_000)), max_size=40))
def test_any_order_of_records_makes_groups_and_records_that_can_be_stored(told: list[tuple[Step, int]]) -> None:
    log, at = Log(), 1_700_000_000_000
    for step, passed in told:
        at += passed
        step(log, at)
        for group in log.watcher.groups.values():
            assert group.exists
            assert group.state in ("Empty", "Stable", "Assigning", "Reconciling")
            for record in group.rebalances:
                assert RebalanceRecord.from_json(record.to_json()) == record


@given(st.lists(st.tuples(st.binary(max_size=40), st.none() | st.binary(max_size=60))))
def test_any_bytes_are_counted(pairs: list[tuple[bytes, bytes | None]]) -> None:
    log = Log()
    for number, (key, value) in enumerate(pairs):
        typed = bytes((0, number % 18)) + key if number % 2 else key
        log.raw(number, typed, value)
    counts = log.reader.counts
    assert counts.records == len(pairs)
    assert counts.unreadable + counts.foreign <= counts.records
    assert (counts.first_unreadable is None) is (counts.unreadable == 0)
