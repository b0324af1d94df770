"""Statistics of a producer, with the names of librdkafka's STATISTICS.md."""

from collections.abc import Mapping

from kohort.client.metrics import PARTITION, Document, message_totals, totals, window
from kohort.client.net import Cluster, broker_statistics
from kohort.client.options import ProducerOptions
from kohort.client.produce.accumulator import Accumulator
from kohort.client.produce.batches import PartitionQueue
from kohort.client.produce.producer_topics import ProducerTopic


def producer_document(
    cluster: Cluster,
    now: float,
    options: ProducerOptions,
    gathered: Accumulator,
    known: Mapping[str, ProducerTopic],
) -> Document:
    """Return the document."""
    metrics = gathered.metrics
    topics: dict[str, Document] = {}
    by_broker: dict[int, list[tuple[str, int]]] = {}
    messages = size = 0
    for name, topic in list(known.items()):
        partitions: dict[str, Document] = {}
        counted = metrics.topics.get(name)
        for queue in topic.queues:
            sent = (0, 0) if counted is None else counted.by_partition.get(queue.partition.partition, (0, 0))
            with gathered.lock:
                waiting = _waiting(queue)
            leader = cluster.metadata.leader(queue.partition)
            node_id = -1 if leader is None or leader.node_id is None else leader.node_id
            by_broker.setdefault(node_id, []).append(queue.partition)
            partitions[str(queue.partition.partition)] = {
                **PARTITION,
                "partition": queue.partition.partition,
                "broker": node_id,
                "leader": node_id,
                "unknown": leader is None,
                **waiting,
                "leader_epoch": -1 if leader is None or leader.epoch is None else leader.epoch,
                "txmsgs": sent[0],
                "txbytes": sent[1],
                "msgs": sent[0],
            }
            messages, size = messages + sent[0], size + sent[1]
        topics[name] = {
            "topic": name,
            "metadata_age": int(cluster.metadata_age * 1000),
            "batchsize": window(None if counted is None else counted.batch_sizes),
            "batchcnt": window(None if counted is None else counted.batch_counts),
            "partitions": partitions,
        }
    return {
        "msg_cnt": gathered.unwritten(),
        "msg_size": options.buffer_memory - gathered.free,
        "msg_max": 0,
        "msg_size_max": options.buffer_memory,
        "metadata_cache_cnt": len(cluster.metadata.topics),
        "brokers": broker_statistics(cluster, now, by_broker),
        "topics": topics,
        **totals(cluster.metrics),
        **message_totals(sent=(messages, size)),
    }


def _waiting(queue: PartitionQueue) -> Document:
    filling = [] if queue.open is None else [queue.open]
    return {
        "msgq_cnt": sum(batch.count for batch in filling),
        "msgq_bytes": sum(batch.size for batch in filling),
        "xmit_msgq_cnt": sum(batch.count for batch in queue.waiting),
        "xmit_msgq_bytes": sum(batch.size for batch in queue.waiting),
        "msgs_inflight": 0 if queue.in_flight is None else queue.in_flight.count,
    }
