"""Metrics of a client's connections: of all together, and of those to each broker."""

from collections import Counter, deque

from kohort.client.metrics.measurements import Measurements, Sampling
from kohort.client.metrics.names import (
    Definition,
    Definitions,
    Report,
    average_and_max,
    rate_and_total,
    sum_rate_and_total,
)

_REQUESTS: Definitions = {
    "sent": (
        *rate_and_total("request", "requests sent"),
        *average_and_max("request-size", "size of a request, in bytes"),
        *sum_rate_and_total("outgoing-byte", "bytes sent"),
    ),
    "received": (
        *rate_and_total("response", "responses received"),
        *sum_rate_and_total("incoming-byte", "bytes received in responses"),
    ),
}

_OF_ALL: Definitions = {
    **_REQUESTS,
    "opened": rate_and_total("connection-creation", "connections opened"),
    "closed": rate_and_total("connection-close", "connections closed"),
    "authenticated": rate_and_total("successful-authentication", "connections that were authenticated"),
    "rejected": rate_and_total("failed-authentication", "connections whose authentication failed"),
    "reauthenticated": (
        *rate_and_total("successful-reauthentication", "repeated authentications of a connection"),
        *average_and_max("reauthentication-latency", "time of a repeated authentication, in milliseconds"),
    ),
    "rejected_again": rate_and_total("failed-reauthentication", "repeated authentications that failed"),
}

_OF_NODE: Definitions = {
    **_REQUESTS,
    "latency": average_and_max("request-latency", "time from a request to its response, in milliseconds"),
}

_DATA = frozenset({0, 1})
"""Keys of Produce and Fetch, the requests whose latency counts: others may be held by the broker for long."""
_LAST_NODE = 2**31 - 1
_MOST_SAMPLES = 10_000


class NodeMetrics:
    """Metrics of the connections to one broker. What is counted here counts for the client, too."""

    def __init__(self, client: "NetworkMetrics", sampling: Sampling) -> None:
        self.client = client
        self.sent = Measurements(sampling)
        self.received = Measurements(sampling)
        self.latency = Measurements(sampling)
        """Times to the response, in milliseconds."""
        self.requests: Counter[int] = Counter()
        """Numbers of requests by API key."""
        self.timeouts = self.connects = self.disconnects = 0
        self.changed_at: float | None = None
        """Time at which a connection was opened or closed."""
        self.round_trips: deque[float] = deque(maxlen=_MOST_SAMPLES)
        """Times to the response since the last statistics, in microseconds, if there are statistics."""
        self.throttles: deque[float] = deque(maxlen=_MOST_SAMPLES)
        self.queue_times: deque[float] = deque(maxlen=_MOST_SAMPLES)
        """Times for which batches waited since the last statistics, in microseconds."""

    def connected(self, now: float) -> None:
        """Count a connection that was opened."""
        self.connects += 1
        self.changed_at = now
        self.client.opened.add(1, now)

    def disconnected(self, now: float) -> None:
        """Count a connection that was closed."""
        self.disconnects += 1
        self.changed_at = now
        self.client.closed.add(1, now)

    def request(self, key: int, size: int, now: float) -> None:
        """Count a request of `size` bytes with this API key."""
        self.requests[key] += 1
        self.sent.add(size, now)
        self.client.sent.add(size, now)

    def response(self, key: int, size: int, took_s: float, throttle_ms: int, now: float) -> None:
        """Count the response to a request with this API key."""
        client = self.client
        self.received.add(size, now)
        client.received.add(size, now)
        if client.sampled:
            self.round_trips.append(took_s * 1e6)
            self.throttles.append(throttle_ms)
        if key in _DATA or client.of_admin:
            latency_ms = took_s * 1000
            self.latency.add(latency_ms, now)
            client.latency.add(latency_ms, now)
            client.throttle.add(throttle_ms, now)


class NetworkMetrics:
    """Metrics of all connections of one client."""

    def __init__(self, sampling: Sampling) -> None:
        self.of_admin = False
        """Whether the latency of every request counts, as for Java's admin client."""
        self.sampled = False
        """Whether round trips are kept for statistics."""
        self.nodes: dict[int, NodeMetrics] = {}
        self.sent = Measurements(sampling)
        self.received = Measurements(sampling)
        self.latency = Measurements(sampling)
        """Times to the response of Produce and Fetch requests, in milliseconds."""
        self.throttle = Measurements(sampling)
        """Times for which a quota made the client pause, in milliseconds."""
        self.opened = Measurements(sampling)
        self.closed = Measurements(sampling)
        self.authenticated = Measurements(sampling)
        self.rejected = Measurements(sampling)
        self.reauthenticated = Measurements(sampling)
        self.rejected_again = Measurements(sampling)
        self._sampling = sampling
        self._unknown = NodeMetrics(self, sampling)

    def node(self, node_id: int, purpose: str = "") -> NodeMetrics:
        """Return the metrics of the connections to this broker.

        The connection of a group's member to the coordinator has a number of its own, as in Java.
        """
        if node_id < -(2**30):
            return self._unknown
        if purpose.startswith("member"):
            node_id = _LAST_NODE - node_id
        found = self.nodes.get(node_id)
        if found is None:
            found = self.nodes[node_id] = NodeMetrics(self, self._sampling)
        return found

    def report(self, report: Report, kind: str) -> None:
        """Add the metrics of a client of this kind, such as `consumer`."""
        group = f"{kind}-metrics"
        report.add_all(group, self, _OF_ALL)
        open_now = float(self.opened.count - self.closed.count)
        report.add(group, "connection-count", "Number of open connections.", open_now)
        both = self.sent, self.received
        for definition in NETWORK_IO:
            value = sum(definition.read(values, report.now) for values in both)
            report.add(group, definition.name, definition.description, value)
        for node_id, node in self.nodes.items():
            report.add_all(f"{kind}-node-metrics", node, _OF_NODE, node_id=f"node-{node_id}")


NETWORK_IO: tuple[Definition, ...] = rate_and_total("network-io", "requests sent and responses received")
