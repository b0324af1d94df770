"""What librdkafka's statistics tell of each broker."""

from collections.abc import Collection, Mapping

from kohort.client.metrics import Document, NodeMetrics, named, since_us, window
from kohort.client.net.cluster import Cluster
from kohort.wire.api import APIS

_NAMES = {"ApiVersions": "ApiVersion"}
"""librdkafka's names of requests where they differ."""
_COORDINATOR = 2**30


def broker_statistics(
    cluster: Cluster, now: float, partitions: Mapping[int, Collection[tuple[str, int]]]
) -> dict[str, Document]:
    """Return a document for each broker that was connected to. `partitions` has those in use, by broker."""
    found: dict[str, Document] = {}
    for node_id, node in list(cluster.metrics.nodes.items()):
        name, address, source = _place(cluster, node_id)
        number = node_id if source == "learned" else -1
        open_now = [connection for connection in cluster.connections if connection.metrics is node]
        found[name] = {
            "name": name,
            "nodeid": number,
            "nodename": address,
            "source": source,
            "state": "UP" if open_now else "DOWN",
            "stateage": since_us(node.changed_at, now),
            "waitresp_cnt": sum(connection.in_flight for connection in open_now),
            "tx": node.sent.count,
            "txbytes": int(node.sent.total),
            "txidle": since_us(node.sent.last_at, now),
            "rx": node.received.count,
            "rxbytes": int(node.received.total),
            "rxidle": since_us(node.received.last_at, now),
            "req_timeouts": node.timeouts,
            "connects": node.connects,
            "disconnects": node.disconnects,
            "int_latency": window(node.queue_times),
            "rtt": window(node.round_trips),
            "throttle": window(node.throttles),
            "req": _requests(node),
            "toppars": named(partitions.get(node_id, ())),
        }
    return found


def _requests(node: NodeMetrics) -> dict[str, int]:
    counts = ((APIS[key].name, number) for key, number in sorted(node.requests.items()))
    return {_NAMES.get(name, name): number for name, number in counts}


def _place(cluster: Cluster, node_id: int) -> tuple[str, str, str]:
    """Return name, address and source of a node, as librdkafka names them."""
    if node_id < 0:
        host, port = cluster.bootstrap[-1 - node_id]
        return f"{host}:{port}/bootstrap", f"{host}:{port}", "configured"
    is_coordinator = node_id >= _COORDINATOR
    broker = cluster.metadata.brokers.get(2**31 - 1 - node_id if is_coordinator else node_id)
    address = "" if broker is None else f"{broker.host}:{broker.port}"
    if is_coordinator:
        return "GroupCoordinator", address, "logical"
    return f"{address}/{node_id}", address, "learned"
