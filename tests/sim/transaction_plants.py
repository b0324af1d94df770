"""Bugs of transactions, which only worlds with transactions can find; see planting."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

from pytest import MonkeyPatch

from kohort.broker.access.guards import GUARDS
from kohort.broker.apis import transactional_produce
from kohort.broker.groups import refusal
from kohort.broker.transactions import marking
from kohort.client.consume.unpacking import PlainChunk
from kohort.client.produce.transactions import Transactions as ProducersTransactions
from kohort.coordinator import GroupShard
from kohort.coordinator.offsets import commit_fetch, transactional
from kohort.coordinator.pending_offsets import PendingOffsets
from kohort.coordinator.transactions import TransactionEffects, TransactionShard, ending
from kohort.coordinator.transactions.effects import TransactionTimeout
from kohort.errors import ErrorCode
from kohort.log.cluster import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from kohort.log.partition import SegmentedLog
from kohort.security import Operation
from kohort.sim import Plan
from kohort.sim.plans import SOURCE, ApplicationSettings, make_transactional
from kohort.sim.steps import (
    BrokerKill,
    ClientKill,
    ClientSuspend,
    Effect,
    LeaderElect,
    MemberStart,
    MessageFault,
    PartitionReassign,
    Produce,
    sort,
)  # fmt: skip
from kohort.wire.messages.api_key import ApiKey
from tests.sim.planting import plant


def _plan(seed: int, seconds: float, brokers: int = 1) -> Plan:
    member = ApplicationSettings(
        "g", ("orders",), session=10_000, heartbeat=3_000, commit_every=5_000, poll_every=3_000
    )
    return Plan(
        seed,
        seconds,
        brokers=brokers,
        cluster=brokers > 1,
        records=True,
        settings={"group.initial.rebalance.delay.ms": "0", "log.message.timestamp.after.max.ms": str(2**63 - 1)},
        topics={"orders": 1, "vault": 1},
        members=[member],
        rates=[1.0],
        steps=[MemberStart(1.0, 0)],
    )


def copies(seed: int = 0) -> Plan:
    """Processes copy in transactions, some with one transactional id, while they and the broker are killed."""
    plan = _plan(seed, 30.0)
    plan.steps += [BrokerKill(8.0, 0, 0.5), BrokerKill(17.0, 0, 0.5)]
    make_transactional(plan, Random(f"copies {seed}"))
    return plan


def other_copies() -> Plan:
    """The same, with other numbers of processes and other faults."""
    return copies(1)


def more_copies() -> Plan:
    """The same, with still others."""
    return copies(11)


def secured_copies(seed: int = 0) -> Plan:
    """The processes authenticate, again every two seconds, and have the rights that they need and no others."""
    plan = copies(seed)
    plan.secured = True
    plan.settings["connections.max.reauth.ms"] = "2000"
    return plan


def cluster_copies(seed: int) -> Plan:
    """The brokers are a cluster, in which leaders and coordinators die and move."""
    plan = _plan(seed, 30.0, brokers=3)
    make_transactional(plan, Random(f"cluster {seed}"))
    return plan


def secured_cluster_copies(seed: int) -> Plan:
    """As `secured_copies`, in a cluster whose brokers log in to each other and have only the right that this needs."""
    plan = cluster_copies(seed)
    plan.secured = True
    plan.settings["connections.max.reauth.ms"] = "2000"
    return plan


def takeovers(seed: int) -> Plan:
    """Leaders of copies move, and each broker waits for the coordinator's answer about partitions that it has."""
    plan, rng = cluster_copies(seed), Random(f"takeovers {seed}")
    plan.settings["transaction.version"] = "2"  # brokers add the partitions to transactions
    plan.copying, plan.copiers, plan.transactional_ids, plan.transaction_timeout = "-", 3, 3, 5_000
    plan.steps = [Produce(0.5 * number, SOURCE, 2) for number in range(60)]
    at = 3.0
    while at < 28.0:
        topic, partition = rng.choice([("tx-out", 0), ("tx-out", 1), ("tx-log", 0)])
        plan.steps.append(PartitionReassign(round(at, 3), topic, partition, tuple(rng.sample([1, 2, 3], 3))))
        plan.steps.append(LeaderElect(round(at + 0.6, 3), topic, partition))
        at += rng.uniform(0.75, 2.25)
    for number in range(60):
        at, seconds = round(2.0 + 0.4 * number, 3), round(rng.uniform(0.2, 0.6), 3)
        plan.steps.append(MessageFault(at, Effect.REQUEST_LATE, "AddPartitionsToTxn", seconds))
    sort(plan.steps)
    return plan


def late_markers(seed: int = 0) -> Plan:
    """Group members that copy die while markers of their last transaction are late, and others go on from there."""
    plan, rng = cluster_copies(seed), Random(f"late markers {seed}")
    plan.copying, plan.copiers, plan.transactional_ids, plan.transaction_timeout = "range", 3, 3, 10_000
    plan.settings |= {"transaction.state.log.num.partitions": "1", "group.initial.rebalance.delay.ms": "0"}
    plan.steps = [Produce(0.2 * number, SOURCE, 1) for number in range(150)]
    # A coordinator of transactions writes its own markers at once, so that of the group is another broker.
    places = [(TRANSACTIONS_TOPIC, 0, (1, 2, 3)), *((OFFSETS_TOPIC, number, (2, 3, 1)) for number in range(3))]
    for topic, partition, replicas in places:
        plan.steps += [PartitionReassign(0.5, topic, partition, replicas), LeaderElect(1.5, topic, partition)]
    for number in range(6):
        at = 5.0 + 4.0 * number
        plan.steps += [MessageFault(at, Effect.REQUEST_LATE, "WriteTxnMarkers", 4.0) for _ in range(4)]
        plan.steps += [ClientKill(round(at + rng.uniform(0.2, 0.6), 3), 1 + rng.randrange(3), 2.5)]
    sort(plan.steps)
    return plan


def dead_copiers() -> Plan:
    """No process comes back that was killed in a transaction."""
    plan, rng = _plan(0, 60.0), Random("dead copiers")
    make_transactional(plan, rng)
    plan.copying, plan.copiers, plan.transactional_ids, plan.transaction_timeout = "-", 3, 3, 2_000
    plan.steps = [Produce(round(0.7 * number, 3), SOURCE, 1) for number in range(30)]
    plan.steps += [ClientKill(round(rng.uniform(3, 20), 3), 1 + copier, 100.0) for copier in range(3)]
    sort(plan.steps)
    return plan


def suspended_consumers() -> Plan:
    """Group members copy, and stand still until their group has removed them, but their transaction is still open."""
    plan, rng = _plan(1, 120.0), Random("members 1")
    make_transactional(plan, rng)
    plan.copying, plan.copiers, plan.transactional_ids, plan.transaction_timeout = "consumer", 3, 3, 10_000
    plan.settings |= {
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "1000",
        "group.consumer.heartbeat.interval.ms": "2000",
    }
    plan.steps = [Produce(float(number), SOURCE, 1) for number in range(120)]
    plan.steps += [ClientSuspend(round(rng.uniform(5, 115), 3), 1 + rng.randrange(3), 8.0) for _ in range(36)]
    sort(plan.steps)
    return plan


@plant("S23", plan=copies)
def aborted_transactions_are_not_listed(patch: MonkeyPatch) -> None:
    patch.setattr(SegmentedLog, "aborted", lambda self, offset, end: [])


@plant("S23", plan=copies)
def a_consumer_returns_records_of_aborted_transactions(patch: MonkeyPatch) -> None:
    patch.setattr(PlainChunk, "_hides", lambda self, header: header.is_control)


@plant("S26", "S23", plan=copies)
def the_last_stable_offset_is_that_of_all_records(patch: MonkeyPatch) -> None:
    patch.setattr(SegmentedLog, "last_stable_offset", property(lambda self: self.stable_offset))


@plant("S26", "S23", plan=other_copies)
def a_marker_ends_the_transactions_of_all_producers(patch: MonkeyPatch) -> None:
    real = SegmentedLog.settle

    def settle(self: SegmentedLog, queued: Any) -> Any:
        full = real(self, queued)
        if any(header.is_control for append in queued for header in append.headers):
            self._open.clear()
        return full

    patch.setattr(SegmentedLog, "settle", settle)


@plant("S24", plan=other_copies)
def an_abort_commits(patch: MonkeyPatch) -> None:
    real = vars(ending)["decide"]

    def decide(*given: Any, committed: bool, **rest: Any) -> Any:
        return real(*given, committed=True, **rest)

    patch.setitem(vars(ending), "decide", decide)


@plant("L10", "S24", "S25", plan=more_copies)
def a_commit_does_not_wait_for_its_records(patch: MonkeyPatch) -> None:
    async def at_once(self: Any) -> None:
        self._apply(self._machine.all_written(self._now()))

    patch.setattr(ProducersTransactions, "_write_all", at_once)


@plant("S25", "S24", plan=copies)
def an_aborted_transaction_gets_no_marker(patch: MonkeyPatch) -> None:
    real = marking.append_marker

    def append(broker: Any, partition: Any, producer_id: int, epoch: int, marker: Any, version: int, done: Any) -> None:
        if marker.committed or partition.topic == OFFSETS_TOPIC:
            real(broker, partition, producer_id, epoch, marker, version, done)
        else:
            done(ErrorCode.NONE)

    patch.setattr(marking, "append_marker", append)


@plant("S27", "S10", plan=other_copies)
def offsets_of_a_committed_transaction_are_dropped(patch: MonkeyPatch) -> None:
    real = PendingOffsets.end
    patch.setattr(
        PendingOffsets, "end", lambda self, producer_id, *, committed: real(self, producer_id, committed=False)
    )


@plant("S10", plan=other_copies)
def offsets_of_an_aborted_transaction_are_committed(patch: MonkeyPatch) -> None:
    real = GroupShard.replay_end

    def commit(self: GroupShard, producer_id: int, *, committed: bool) -> None:
        real(self, producer_id, committed=True)

    patch.setattr(GroupShard, "replay_end", commit)


@plant("L9", "L10", plan=copies)
def a_marker_is_written_to_one_partition_only(patch: MonkeyPatch) -> None:
    real = marking.append_marker
    first: dict[tuple[int, int], object] = {}

    def append(broker: Any, partition: Any, producer_id: int, epoch: int, marker: Any, version: int, done: Any) -> None:
        if partition.topic == OFFSETS_TOPIC or first.setdefault((producer_id, epoch), partition) == partition:
            real(broker, partition, producer_id, epoch, marker, version, done)
        else:
            done(ErrorCode.NONE)

    patch.setattr(marking, "append_marker", append)


@plant("L9", plan=dead_copiers)
def a_transaction_that_is_too_old_stays_open(patch: MonkeyPatch) -> None:
    real = TransactionShard.fire

    def fire(self: TransactionShard, timer: Any, now: int) -> TransactionEffects:
        return TransactionEffects() if isinstance(timer, TransactionTimeout) else real(self, timer, now)

    patch.setattr(TransactionShard, "fire", fire)


@plant("S27", plan=partial(late_markers, 3))
def an_offset_that_is_pending_is_not_reported_as_unstable(patch: MonkeyPatch) -> None:
    patch.setattr(commit_fetch, "_mark_unstable", lambda *arguments: None)


@plant("S27", plan=suspended_consumers)
def offsets_of_a_removed_member_are_taken_in_a_transaction(patch: MonkeyPatch) -> None:
    patch.setattr(transactional, "_refusal", lambda group, request: ErrorCode.NONE)  # KIP-447


@plant("S25", "L10", "S24", plan=partial(cluster_copies, 64))
def a_marker_that_another_broker_did_not_confirm_counts_as_written(patch: MonkeyPatch) -> None:
    real = vars(marking)["_Ending"]._other_answered

    def answered(self: Any, partitions: Any, response: Any) -> None:
        if response is not None:
            real(self, partitions, response)
            return
        for partition in partitions:
            self._answered(partition, ErrorCode.NONE)

    patch.setattr(vars(marking)["_Ending"], "_other_answered", answered)


@plant("S25", "S24", "L10", plan=partial(takeovers, 1))
def a_batch_of_a_partition_that_was_taken_over_meanwhile_is_appended_unverified(patch: MonkeyPatch) -> None:
    # The broker asked the coordinator about another partition of the same Produce request.
    real = vars(transactional_produce)["_error"]

    def error(broker: Any, batch: Any, verdicts: Any, producers: Any) -> Any:
        return None if batch.log is None else real(broker, batch, verdicts, producers)

    patch.setattr(transactional_produce, "_error", error)


@plant("S14", plan=secured_copies)
def offsets_of_a_transaction_need_the_right_to_write_their_topics(patch: MonkeyPatch) -> None:
    real = GUARDS[ApiKey.TXN_OFFSET_COMMIT]

    def stricter(access: Any, request: Any) -> Any:
        if all(access.topic(Operation.WRITE, topic.name) for topic in request.topics):
            return real(access, request)
        access.refuse(refusal(request, access.call.version, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
        return None

    patch.setitem(GUARDS, ApiKey.TXN_OFFSET_COMMIT, stricter)
