"""Rules about transactions whose offsets a group waits for. Pure."""

from collections.abc import Iterator

from kohort.model import Millis
from kohort.recorder import HeldOffsets
from kohort.watch.findings.facts import Facts
from kohort.watch.findings.finding import Finding, duration, shown


def waits_for_transaction(facts: Facts) -> Iterator[Finding]:
    """Members do not read, because an open transaction has offsets of theirs. Only Kohort's journal reports it."""
    last: dict[tuple[int, Millis], tuple[HeldOffsets, Millis]] = {}
    for record in facts.all_records:
        held = record.held_offsets
        if held is not None:
            last[held.producer_id, held.waiting_since] = held, record.ended_at
    for held, reported_at in last.values():
        if held.end is not None or _goes_on(facts, held, reported_at):
            continue  # what is over needs no advice; kohort rebalances shows it
        waiting = (facts.now - held.waiting_since) / 1000
        yield Finding(
            "waits-for-transaction",
            f"Members wait for {duration(waiting)} for the offsets of {shown(held.listed)} in the open transaction of"
            f" {shown(held.transaction)}. They read nothing from these partitions until it ends.",
            f"The coordinator aborts it at its timeout. Before that, {held.advice}.",
            evidence={
                "producer_id": held.producer_id,
                "transactional_id": held.transactional_id,
                "waiting_since": held.waiting_since,
                "pending_since": held.pending_since,
                "partitions": [str(partition) for partition in held.partitions],
            },
        )


def _goes_on(facts: Facts, held: HeldOffsets, reported_at: Millis) -> bool:
    """Return whether the group has since committed all partitions.

    A coordinator that failed does not report the end of the wait.
    """
    commits = [facts.group.commits.get(partition) for partition in held.partitions]
    return bool(commits) and all(
        commit is not None and commit.at is not None and commit.at > reported_at for commit in commits
    )
