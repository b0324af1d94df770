"""Random producers, repeated and late requests, failovers and markers: what must always hold."""

from hypothesis import given, settings
from hypothesis import strategies as st

from kohort.coordinator.transactions import Markers, TransactionState
from kohort.errors import ErrorCode
from kohort.model import TopicPartition
from tests.coordinator.transactions.shell import A, B, Producer, Shell

STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["init", "continue", "add", "commit", "abort", "mark", "mark one", "fail over", "wait", "version"]
        ),
        st.integers(0, 5),  # which of the producers, the last one first
        st.sampled_from([4, 5]),  # the version of the request
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_decisions_are_final_and_epochs_belong_to_one_producer(steps: list[tuple[str, int, int]]) -> None:
    shell = Shell()
    producers: list[Producer] = []
    decided: dict[tuple[int, int], Markers] = {}
    for action, which, api_version in steps:
        producer = producers[-1 - which % len(producers)] if producers else (100, 0)
        newest = shell.shard.transactions.get("t")
        match action:
            case "init" | "continue":
                continued = action == "continue" and bool(producers)
                got = shell.init(producer=producer if continued else (-1, -1))
                if not isinstance(got, ErrorCode):
                    if not continued:
                        assert got not in producers, "two producers have one epoch"
                    producers.append(got)
            case "add":
                before = newest
                code = shell.add(producer, A if which % 2 else B, api_version=3 if api_version == 4 else 5)
                if code is ErrorCode.NONE:
                    assert before is not None
                    assert (before.producer_id, before.epoch) == producer
                    assert shell.state() is TransactionState.ONGOING
            case "commit" | "abort":
                got = shell.end(producer, commit=action == "commit", api_version=api_version)
                if not isinstance(got, ErrorCode) and got != (-1, -1):
                    producers.append(got)
            case "mark" if shell.markers:
                shell.mark()
            case "mark one" if shell.markers:
                shell.mark(TopicPartition(*sorted(shell.markers[0].partitions)[0]))
            case "fail over":
                before_failover = dict(shell.shard.transactions)
                shell.fail_over()
                assert {
                    name: one for name, one in shell.shard.transactions.items() if name not in before_failover
                } == {}
            case "wait":
                shell.advance(20_000)
            case "version":
                shell.version = 0 if shell.version else 2
        for marker in shell.markers:
            # A decision never changes. Without an epoch for each, the next transaction has the epoch of this one.
            known = decided.setdefault((marker.producer_id, marker.epoch), marker)
            assert known.committed == marker.committed or marker.version < 2
        newest = shell.shard.transactions.get("t")
        if newest is not None:
            assert newest.epoch is not None
            assert (newest.started_at is not None) or newest.state is TransactionState.EMPTY
            assert bool(newest.partitions) == (
                newest.state
                in (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
            )
    loaded = dict(shell.shard.transactions)
    shell.fail_over()
    assert dict(shell.shard.transactions) == loaded, "a loaded state equals one that was lived through"
