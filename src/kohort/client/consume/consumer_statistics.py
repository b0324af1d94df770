"""Statistics of a consumer, with the names of librdkafka's STATISTICS.md."""

from collections.abc import Mapping

from kohort.client.consume.fetch_metrics import FetchMetrics
from kohort.client.consume.partition import PartitionState
from kohort.client.membership import MemberDriver
from kohort.client.metrics import NO_OFFSET, PARTITION, Document, message_totals, since_ms, totals, window
from kohort.client.net import Cluster, broker_statistics
from kohort.client.offset_spec import OffsetSpec
from kohort.member import OffsetAndMetadata, Phase
from kohort.model import TopicPartition

_QUERIES = {OffsetSpec.EARLIEST: -2, OffsetSpec.LATEST: -1}

_JOIN_STATES = {
    Phase.PREPARING: "wait-join",
    Phase.JOINING: "wait-join",
    Phase.ASSIGNING: "wait-metadata",
    Phase.SYNCING: "wait-sync",
    Phase.STABLE: "steady",
    Phase.RECONCILING: "wait-assign-call",
    Phase.ACKNOWLEDGING: "wait-assign-call",
    Phase.LEAVING: "wait-unassign-call",
    Phase.PREPARE_LEAVING: "wait-unassign-call",
}
"""librdkafka's name of each phase; `init` for the others."""


def consumer_document(
    cluster: Cluster,
    now: float,
    states: Mapping[TopicPartition, PartitionState],
    positions: Mapping[TopicPartition, int],
    committed: Mapping[TopicPartition, OffsetAndMetadata],
    fetches: FetchMetrics,
    driver: MemberDriver | None,
) -> Document:
    """Return the document. `committed` has the offsets that this consumer committed last."""
    topics: dict[str, Document] = {}
    by_broker: dict[int, list[tuple[str, int]]] = {}
    for partition, state in states.items():
        leader = cluster.metadata.leader(partition)
        node_id = -1 if leader is None or leader.node_id is None else leader.node_id
        by_broker.setdefault(node_id, []).append(partition)
        topic = topics.setdefault(
            partition.topic,
            {
                "topic": partition.topic,
                "metadata_age": int(cluster.metadata_age * 1000),
                "batchsize": window(),
                "batchcnt": window(),
                "partitions": {},
            },
        )
        counted = fetches.partition(partition)
        topic["partitions"][str(partition.partition)] = {
            **PARTITION,
            "partition": partition.partition,
            "broker": node_id,
            "leader": node_id,
            "desired": True,
            "unknown": leader is None,
            "fetchq_size": state.buffered,
            "fetch_state": _fetch_state(state),
            **_offsets(state, positions.get(partition), committed.get(partition) or state.committed),
            "leader_epoch": -1 if leader is None or leader.epoch is None else leader.epoch,
            "rxmsgs": counted.records,
            "rxbytes": counted.consumed_bytes,
            "msgs": counted.records,
        }
    document: Document = {
        "msg_cnt": 0,
        "msg_size": 0,
        "msg_max": 0,
        "msg_size_max": 0,
        "metadata_cache_cnt": len(cluster.metadata.topics),
        "brokers": broker_statistics(cluster, now, by_broker),
        "topics": topics,
        **totals(cluster.metrics),
        **message_totals(received=(int(fetches.records.total), int(fetches.consumed_bytes.total))),
    }
    if driver is not None:
        document["cgrp"] = _group(driver, now, len(states))
    return document


def _fetch_state(state: PartitionState) -> str:
    if state.position is None:
        return "offset-query"
    return "stopped" if state.paused else "active"


def _offsets(state: PartitionState, position: int | None, committed: OffsetAndMetadata | None) -> Document:
    stored = NO_OFFSET if position is None else position
    durable = NO_OFFSET if committed is None else committed.offset
    end = state.end
    return {
        "query_offset": _QUERIES.get(state.reset, NO_OFFSET) if isinstance(state.reset, OffsetSpec) else NO_OFFSET,
        "next_offset": state.fetch_at,
        "app_offset": stored,
        "stored_offset": stored,
        "stored_leader_epoch": _known(state.leader_epoch),
        "commited_offset": durable,
        "committed_offset": durable,
        "committed_leader_epoch": _known(None if committed is None else committed.leader_epoch),
        "eof_offset": end if end is not None and end == position else NO_OFFSET,
        "lo_offset": NO_OFFSET if state.start is None else state.start,
        "hi_offset": NO_OFFSET if state.high_watermark is None else state.high_watermark,
        "ls_offset": NO_OFFSET if state.stable is None else state.stable,
        "consumer_lag": -1 if end is None or committed is None else max(0, end - committed.offset),
        "consumer_lag_stored": -1 if end is None or position is None else max(0, end - position),
    }


def _known(epoch: int | None) -> int:
    return -1 if epoch is None else epoch


def _group(driver: MemberDriver, now: float, assigned: int) -> Document:
    member, metrics = driver.member, driver.metrics
    return {
        "state": "up" if member.generation is not None else "init",
        "stateage": since_ms(metrics.entered_at, now),
        "join_state": _JOIN_STATES.get(member.phase, "init"),
        "rebalance_age": since_ms(metrics.rebalances.last_at, now),
        "rebalance_cnt": metrics.rebalances.count,
        "rebalance_reason": member.reason,
        "assignment_size": assigned,
    }
