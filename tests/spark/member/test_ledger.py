"""Partitions and commits of a query: case by case, then random, with an engine that crashes anywhere."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from kohort.model import TopicPartition
from pyspark_kohort.member.ledger import GroupCommit, Ledger
from pyspark_kohort.offsets import Claim, Offset
from pyspark_kohort.source import plan
from pyspark_kohort.source.plan import Range
from tests.spark.engine import Group, Query, deliveries

A, B = TopicPartition("flights", 0), TopicPartition("flights", 1)


US = "us"


def ledger_at(start: Offset, end: Offset | None = None) -> Ledger:
    names = iter(["fresh", "fresher"] if start.positions else [US])
    ledger = Ledger(lambda: next(names))
    ledger.resume(start, end)
    return ledger


def pending_offsets(ledger: Ledger) -> dict[TopicPartition, int]:
    """Offsets that should be committed to the group."""
    return {tp: commit.offset for tp, commit in ledger.commits().items()}


def commit_all(ledger: Ledger) -> None:
    """Commit all pending offsets to the group."""
    ledger.committed(ledger.commits())


def unnamed(offset: Offset) -> Offset:
    """The offset without the claims, which have tests of their own."""
    return replace(offset, claims={})


def ours(positions: dict[TopicPartition, int], pins: dict[TopicPartition, int] | None = None) -> Offset:
    return Offset(positions, pins or {}, US)


def test_only_what_latest_offset_proves_is_committed() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, GroupCommit(10, US), first=0)
    commit_all(ledger)
    end = ledger.advance(Offset(), {A: 25}, None)
    assert unnamed(end) == ours({A: 25}, {A: 10})
    assert ledger.reading([A, B]) == [A]
    assert pending_offsets(ledger) == {}
    ledger.complete(end)
    assert pending_offsets(ledger) == {A: 25}
    commit_all(ledger)
    assert pending_offsets(ledger) == {}
    assert ledger.advance(end, {A: 25}, None) is end


def test_a_partition_without_an_offset_gets_one_at_once() -> None:
    # Otherwise `latest` would be looked up again after a crash, and the records in between would be lost.
    ledger = ledger_at(Offset())
    ledger.grant(A, None, first=7)
    assert pending_offsets(ledger) == {A: 7}


def test_a_partition_won_from_another_is_claimed_at_once() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, GroupCommit(7, "them"), first=0)
    assert pending_offsets(ledger) == {A: 7}
    commit_all(ledger)
    assert pending_offsets(ledger) == {}


def test_a_restart_commits_what_the_checkpoint_proves() -> None:
    ledger = ledger_at(ours({A: 25, B: 5}))
    ledger.grant(A, GroupCommit(10, US), first=0)
    assert ledger.owned == {A: 25}
    assert pending_offsets(ledger) == {A: 25}
    # B went to another query, which has got further than we had.
    ledger.grant(B, GroupCommit(9, "them"), first=0)
    assert ledger.owned == {A: 25, B: 9}


def test_partitions_claimed_by_another_query_do_not_count_as_done() -> None:
    # Our checkpoint says 25, but after a replay without A, which was theirs by then: they did not get to 25.
    ledger = ledger_at(ours({A: 25}))
    ledger.grant(A, GroupCommit(10, "them"), first=0)
    assert ledger.owned == {A: 10}


def test_a_checkpoint_of_spark_sql_kafka_is_taken_over() -> None:
    ledger = ledger_at(Offset({A: 25}))
    ledger.grant(A, None, first=0)
    assert pending_offsets(ledger) == {A: 25}


def test_a_checkpoint_precedes_the_groups_starting_offset() -> None:
    # startingOffsets=latest would skip the records that arrived while the query was down.
    ledger = ledger_at(Offset({A: 25}))
    ledger.grant(A, None, first=90)
    assert ledger.owned == {A: 25}


def test_a_replay_reads_only_ranges_that_this_query_still_owns() -> None:
    c = TopicPartition("flights", 2)
    start, end = ours({A: 10, B: 10, c: 10}), ours({A: 20, B: 20, c: 20})
    ledger = ledger_at(start, end)
    ledger.grant(A, GroupCommit(10, US), first=0)
    ledger.grant(B, GroupCommit(15, "them"), first=0)
    todo = ledger.replay(start, end)
    assert todo == [Range("flights", 0, 10, 20)]
    # foreachBatch with two actions plans twice.
    assert ledger.retained(plan.planned_ranges(start, end)) == todo
    ledger.complete(end)
    assert pending_offsets(ledger) == {A: 20, B: 15}
    after = ledger.advance(end, {A: 20, B: 20}, None)
    assert after.pins == {B: 15}
    assert ledger.retained(plan.planned_ranges(end, after)) == [Range("flights", 1, 15, 20)], "the replay is over"


def test_a_replay_takes_only_what_the_plan_went_on_from_as_done() -> None:
    # B was claimed at `start`, and the plan that followed dropped it: another member had it.
    start, end = ours({A: 10, B: 10}), ours({A: 20})
    ledger = ledger_at(start, end)
    ledger.grant(B, GroupCommit(4, US), first=0)
    assert ledger.owned == {B: 4}


def test_after_a_clipped_replay_the_checkpoint_does_not_keep_the_claim() -> None:
    # Were the last offset still to say B: 20, a restart would take B's records as done by this query.
    start, end = ours({A: 10, B: 10}), ours({A: 20, B: 20})
    ledger = ledger_at(start, end)
    ledger.grant(A, GroupCommit(10, US), first=0)
    ledger.replay(start, end)
    ledger.complete(end)
    assert unnamed(ledger.advance(end, {A: 20}, None)) == ours({A: 20})


def test_a_batch_under_way_proves_nothing_yet() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, None, first=0)
    commit_all(ledger)
    ledger.advance(Offset(), {A: 5}, None)
    assert pending_offsets(ledger) == {}


def test_a_regained_partition_continues_after_the_other_members_work() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, GroupCommit(0, US), first=0)
    first = ledger.advance(Offset(), {A: 5}, None)
    ledger.drop([A])
    ledger.complete(first)
    ledger.grant(A, GroupCommit(9, "them"), first=0)
    assert unnamed(ledger.advance(first, {A: 12}, None)) == ours({A: 12}, {A: 9})


def test_an_earlier_batch_proves_nothing_behind_what_another_has_committed() -> None:
    # Lost in the middle of a batch and won back, and the claim was refused: a commit of 5 would be four records that
    # the group reads again.
    ledger = ledger_at(Offset())
    ledger.grant(A, GroupCommit(0, US), first=0)
    first = ledger.advance(Offset(), {A: 5}, None)
    ledger.drop([A])
    ledger.grant(A, GroupCommit(9, "them"), first=0)
    ledger.complete(first)
    assert pending_offsets(ledger) == {A: 9}
    assert ledger.owned == {A: 9}


def test_each_claim_has_the_next_number() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, GroupCommit(7, "them", Claim("theirs", 4)), first=0)
    ledger.grant(B, None, first=0)
    commits = ledger.commits()
    assert {tp: commit.claim for tp, commit in commits.items()} == {A: Claim("theirs", 5), B: Claim(US, 1)}
    ledger.committed(commits)
    end = ledger.advance(Offset(), {A: 9, B: 9}, None, epoch=3)
    assert (end.claims, end.epoch) == ({A: Claim("theirs", 5), B: Claim(US, 1)}, 3)
    # A commit of another client has no claim: a new series begins.
    ledger.drop([A])
    ledger.grant(A, GroupCommit.of(9, "committed by hand"), first=0)
    assert ledger.commits()[A].claim == Claim(US, 1)


def test_a_series_that_somebody_removed_from_the_group_never_begins_again_under_its_name() -> None:
    # Others may have continued it: a sink would take a lower number of it for that of a query that lost the partition.
    ledger = ledger_at(Offset())
    roots = []
    for claim in (None, Claim(US, 4), None, None):
        ledger.grant(A, claim and GroupCommit(9, "them", claim), first=0)
        found = ledger.commits()[A].claim
        assert found is not None
        roots.append(str(found))
        commit_all(ledger)
        ledger.drop([A])
    assert roots == [f"{US}.1", f"{US}.5", f"{US}-1.1", f"{US}-2.1"]


def test_the_claim_numbers_continue_when_the_topic_is_recreated() -> None:
    # Its id tells a sink that the rows are new, and the number that the query is not the one before.
    ledger = ledger_at(Offset())
    ledger.know({A.topic: "old"})
    ledger.grant(A, GroupCommit(9, "them", Claim(US, 4)), first=0)
    ledger.know({A.topic: "new"})
    ledger.grant(A, None, first=0)
    assert ledger.commits()[A].claim == Claim(US, 6)


def test_former_partitions_are_claimed_again() -> None:
    # The group's generations may have begun anew since: the claim alone orders this stay behind the last one.
    ledger = ledger_at(ours({A: 10}))
    ledger.grant(A, GroupCommit(10, US, Claim("root", 1)), first=0)
    assert ledger.commits() == {A: GroupCommit(10, US, Claim("root", 2))}


def test_the_answer_to_an_old_commit_is_ignored_for_a_regained_partition() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, None, first=7)
    sent = ledger.commits()
    ledger.drop([A])
    ledger.grant(A, GroupCommit(7, "them", Claim("theirs", 1)), first=0)
    ledger.committed(sent)
    assert pending_offsets(ledger) == {A: 7}, "the claim is still to be made"


def test_a_commits_metadata_has_the_whole_claim() -> None:
    for commit in (
        GroupCommit(7, US, Claim("root", 3), "ID"),
        GroupCommit(7, US, Claim("root", 3)),
        GroupCommit(7, US),
        GroupCommit(7, "what another client wrote"),
        GroupCommit(7, "root root"),
        GroupCommit(7, "root root.1 id more"),
        GroupCommit(7, ""),
    ):
        assert GroupCommit.of(7, commit.metadata) == commit


def test_nothing_is_known_of_a_recreated_topic() -> None:
    other = TopicPartition("trains", 0)
    ledger = ledger_at(Offset())
    ledger.know({"flights": "old", "trains": "same"})
    for tp in (A, B, other):
        ledger.grant(tp, GroupCommit(10, US), first=0)
    end = ledger.advance(Offset(), {A: 20, B: 10, other: 20}, None)
    assert end.topic_ids == {"flights": "old", "trains": "same"}
    ledger.drop([B])
    ledger.know({"flights": "new", "trains": "same"})
    assert ledger.owned == {other: 20}
    ledger.complete(end)
    assert pending_offsets(ledger) == {other: 20}
    ledger.grant(A, None, first=0)
    ledger.grant(B, None, first=0)
    assert ledger.commits()[B] == GroupCommit(0, US, Claim(US, 2), "new"), (
        "what was proven of the old topic is forgotten"
    )
    assert ledger.owned == {A: 0, B: 0, other: 20}


def test_a_checkpoint_proves_nothing_about_a_recreated_topic() -> None:
    other = TopicPartition("trains", 0)
    start = replace(ours({A: 10, other: 10}), topic_ids={"flights": "old", "trains": "same"})
    end = replace(ours({A: 20, other: 20}), topic_ids={"flights": "old", "trains": "same"})
    ledger = Ledger(lambda: "fresh")
    ledger.know({"flights": "new", "trains": "same"})
    ledger.resume(start, end)
    ledger.grant(A, None, first=0)
    ledger.grant(other, GroupCommit(10, US), first=0)
    assert ledger.owned == {A: 0, other: 10}
    assert ledger.replay(start, end) == [Range("trains", 0, 10, 20, "same")]
    ledger.complete(end)
    assert ledger.query == US, "the checkpoint's last word of the old topic is no claim to the new one"
    after = ledger.advance(end, {A: 3, other: 20}, None)
    assert (after.positions, after.pins) == ({A: 3, other: 20}, {A: 0})


def test_a_partition_won_at_an_earlier_offset_is_worth_no_empty_batch() -> None:
    start = ours({A: 25})
    ledger = ledger_at(start)
    ledger.grant(A, GroupCommit(10, "them"), first=0)
    assert ledger.advance(start, {A: 10}, None) is start


def test_a_truncated_partition_continues_from_its_end() -> None:
    ledger = ledger_at(ours({A: 100}))
    ledger.grant(A, GroupCommit(100, US), first=0)
    commit_all(ledger)
    ledger.rewind({A: 80, B: 3})
    # Under another name, or a restart from the checkpoint would go on from 100.
    assert (pending_offsets(ledger), ledger.query) == ({A: 80}, "fresher")
    after = ledger.advance(ours({A: 100}), {A: 80}, None)
    assert (after.positions, after.pins) == ({A: 80}, {A: 80}), "an empty batch brings it into the checkpoint"
    ledger.complete(after)
    assert ledger.advance(after, {A: 80}, None) is after
    later = ours({A: 90})
    assert ledger.advance(later, {A: 80}, None) is later, "once"


def test_a_finished_batch_counts_for_a_partition_regained_meanwhile() -> None:
    ledger = Ledger(lambda: "any")
    ledger.resume(Offset())
    ledger.grant(A, GroupCommit(0, US), first=0)
    first = ledger.advance(Offset(), {A: 5}, None)
    ledger.drop([A])
    ledger.grant(A, GroupCommit(0, US), first=0)
    ledger.complete(first)
    assert ledger.owned == {A: 5}
    assert pending_offsets(ledger) == {A: 5}


def test_a_revoked_partition_is_not_committed() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, None, first=7)
    sent = ledger.commits()
    end = ledger.advance(Offset(), {A: 12}, None)
    ledger.drop([A])
    ledger.committed(sent)
    ledger.complete(end)
    assert pending_offsets(ledger) == {}


def test_a_plan_that_claims_more_than_is_true_costs_the_query_its_name() -> None:
    # A was lost in the middle of the batch: under the old name a restart would take the plan for done.
    ledger = ledger_at(ours({A: 25, B: 5}))
    ledger.grant(A, GroupCommit(25, US), first=0)
    ledger.grant(B, GroupCommit(5, US), first=0)
    commit_all(ledger)
    ledger.advance(ours({A: 25, B: 5}), {A: 40, B: 5}, None)
    ledger.drop([A])
    ledger.grant(A, GroupCommit(25, US), first=0)
    assert ledger.query == "fresher"
    assert {tp: commit.query for tp, commit in ledger.commits().items()} == {A: "fresher", B: "fresher"}


def test_a_replay_keeps_the_name_for_what_is_pending_and_not_for_what_another_took() -> None:
    start, end = ours({A: 10, B: 10}), ours({A: 20, B: 20})
    ledger = ledger_at(start, end)
    ledger.grant(A, GroupCommit(10, US), first=0)
    assert ledger.query == US
    ledger.grant(B, GroupCommit(15, "them"), first=0)
    assert ledger.query == "fresher"


def test_offsets_beyond_our_last_commit_remove_the_claim() -> None:
    ledger = ledger_at(ours({A: 25}))
    ledger.grant(A, GroupCommit(30, "them"), first=0)
    assert ledger.query == US
    ledger.drop([A])
    ledger = ledger_at(ours({A: 25}))
    ledger.grant(A, GroupCommit(10, "them"), first=0)
    assert ledger.query == "fresher"


def test_the_first_batch_is_replayed_under_the_name_that_it_was_planned_with() -> None:
    end = ours({A: 20, B: 3}, {A: 4})
    ledger = Ledger(lambda: "fresh")
    ledger.resume(Offset(), end)
    assert ledger.query == US
    ledger.grant(A, None, first=90)
    ledger.grant(B, None, first=7)
    assert ledger.owned == {A: 4, B: 7}, "its pins say where it began"
    assert ledger.replay(Offset(), end) == [Range("flights", 0, 4, 20)]


def test_the_first_batch_of_a_recreated_topic_is_not_a_claim() -> None:
    ledger = Ledger(lambda: "fresh")
    ledger.know({"flights": "new"})
    ledger.resume(Offset(), replace(ours({A: 20}, {A: 4}), topic_ids={"flights": "old"}))
    ledger.grant(A, None, first=0)
    assert ledger.owned == {A: 0}


def test_a_checkpoint_without_topic_ids_is_believed() -> None:
    ledger = Ledger(lambda: "fresh")
    ledger.know({"flights": "id"})
    ledger.resume(ours({A: 25}))
    ledger.grant(A, None, first=90)
    assert ledger.owned == {A: 25}


def test_an_offset_with_other_members_partitions_does_not_start_a_batch() -> None:
    start = ours({A: 5, B: 7})
    ledger = ledger_at(start)
    ledger.grant(A, GroupCommit(5, US), first=0)
    assert ledger.advance(start, {A: 5}, None) is start


def test_a_batch_reads_what_has_records() -> None:
    ledger = ledger_at(Offset())
    ledger.grant(A, None, first=0)
    ledger.grant(B, None, first=3)
    ledger.advance(Offset(), {A: 5, B: 3}, None)
    assert ledger.reading([A, B]) == [A]


def test_partitions_lost_before_planning_are_not_read_and_prove_nothing() -> None:
    ledger = Ledger(lambda: "any")
    ledger.resume(Offset())
    ledger.grant(A, None, first=0)
    ledger.grant(B, None, first=0)
    end = ledger.advance(Offset(), {A: 10, B: 10}, None)
    ledger.drop([A])
    assert ledger.retained(plan.planned_ranges(Offset(), end)) == [Range("flights", 1, 0, 10)]
    ledger.grant(A, GroupCommit(0, "any"), first=0)
    ledger.complete(end)
    assert ledger.owned == {A: 0, B: 10}


def test_a_replay_is_a_batch_under_way() -> None:
    start, end = ours({A: 10}), ours({A: 20})
    ledger = Ledger(lambda: "fresh")
    ledger.know({"flights": "id"})
    ledger.resume(start, end)
    ledger.grant(A, GroupCommit(10, US), first=0)
    assert ledger.replay(start, end) == [Range("flights", 0, 10, 20)], "a checkpoint of 0.1 has no topic ids"
    assert (ledger.owned, ledger.end, ledger.reading([A])) == ({A: 20}, end, [A])
    # Lost in the middle of it: the checkpoint claims more than is true from here on.
    ledger.drop([A])
    ledger.grant(A, GroupCommit(10, US), first=0)
    assert ledger.query == "fresh"


def test_after_a_replay_of_nothing_the_checkpoint_does_not_keep_the_claim() -> None:
    start, end = ours({B: 10}), ours({B: 20})
    ledger = ledger_at(start, end)
    ledger.grant(B, GroupCommit(15, "them"), first=0)
    assert ledger.replay(start, end) == []
    ledger.complete(end)
    ledger.drop([B])
    assert ledger.advance(end, {}, None).positions == {}


def test_a_claim_is_taken_out_of_the_checkpoint_once() -> None:
    start, end = ours({A: 10, B: 10}), ours({A: 20, B: 20})

    def replayed() -> Ledger:
        ledger = ledger_at(start, end)
        ledger.grant(A, GroupCommit(10, US), first=0)
        ledger.replay(start, end)
        ledger.complete(end)
        return ledger

    ledger = replayed()
    ledger.grant(B, GroupCommit(20, "them"), first=0)
    assert ledger.advance(end, {A: 20, B: 20}, None) is end, "what it claims is true by now"
    ledger = replayed()
    after = ledger.advance(end, {A: 20}, None)
    ledger.drop([A])
    assert ledger.advance(after, {}, None) is after


def run(seed: int, *, crash_rate: float, stop_rate: float) -> tuple[list[Query], Group]:
    """Three queries of one group for a while, then without faults until nothing is left to read."""
    dice = random.Random(seed)
    group = Group({TopicPartition("flights", n): 0 for n in range(5)})
    queries = [Query(name, group, dice, crash_rate, stop_rate) for name in "abc"]
    for step in range(150):
        calm = step >= 100
        for query in queries:
            if calm:
                query.crash_rate = query.stop_rate = 0.0
            if not query.alive and (calm or dice.random() < 0.5):
                query.start()
        alive = [query for query in queries if query.alive]
        orphaned = group.ends.keys() - group.target.keys()
        if alive and (orphaned or (not calm and dice.random() < 0.2)):
            group.aim(dice, alive)
        for query in alive:
            if query.alive:
                query.step()
        if not calm:
            tp = dice.choice(list(group.ends))
            group.ends[tp] += dice.randrange(20)
    for query in queries:
        if query.alive:
            query.step()
            query.stop()
    return queries, group


def assert_all_delivered(queries: list[Query], group: Group) -> int:
    """Return the number of records that were read more than once."""
    found = deliveries(queries)
    wanted = {(tp, offset) for tp, end in group.ends.items() for offset in range(end)}
    assert wanted == found.keys()
    assert {tp: group.offset(tp) for tp in group.ends} == group.ends, "there is lag"
    return sum(count - 1 for count in found.values())


@pytest.mark.parametrize("seeds", [range(n, n + 50) for n in range(0, 200, 50)], ids=str)
def test_rebalances_and_stops_lose_and_double_nothing(seeds: range) -> None:
    for seed in seeds:
        queries, group = run(seed, crash_rate=0.0, stop_rate=0.03)
        assert assert_all_delivered(queries, group) == 0, f"seed {seed}"


@pytest.mark.parametrize("seeds", [range(n, n + 50) for n in range(0, 200, 50)], ids=str)
def test_crashes_lose_nothing(seeds: range) -> None:
    doubled = 0
    for seed in seeds:
        queries, group = run(seed, crash_rate=0.03, stop_rate=0.02)
        doubled += assert_all_delivered(queries, group)
    # The test would prove nothing if its crashes never hit a batch whose partitions moved.
    assert doubled > 0
