"""Replica from which a partition is fetched: its leader, or the follower that the leader prefers (KIP-392).

A leader with a replica selector returns the replica in the reader's rack (`client_rack`). As in
Apache Kafka's consumer, that replica is used for metadata_max_age_ms, or until it fails or the
partition's leader changes.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kohort.client.consume.partition import PartitionState
from kohort.client.net import Cluster, joined_names
from kohort.model import TopicPartition

_log = logging.getLogger(__name__)

_AVOIDS_S = 10.0
"""Time for which a leader whose follower failed is not asked for a follower, in seconds.

The leader keeps returning a dead follower until it detects the failure, by default for 9 s
(broker.session.timeout.ms).
"""


@dataclass(frozen=True, slots=True)
class _Choice:
    """Preferred follower, as returned by the leader of that epoch."""

    node_id: int
    leader_epoch: int | None
    until: float


class ReadReplicas:
    """Read replicas of one consumer.

    Call `log_changes` after each pass, so that a failed broker is logged in one line, however many
    partitions are read from it.
    """

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._chosen: dict[PartitionState, _Choice] = {}
        self._avoided_until: dict[PartitionState, float] = {}
        self._named: dict[int, list[TopicPartition]] = defaultdict(list)
        self._given_up: dict[tuple[int, str], list[TopicPartition]] = defaultdict(list)
        """Partitions to log: new followers by broker, abandoned ones by broker and reason."""

    def source(self, state: PartitionState) -> int:
        """Return the broker to fetch from. Raises a retriable KafkaError if the partition has no leader."""
        leader = self._cluster.leader_of(state.partition)
        choice = self._chosen.get(state)
        if choice is None:
            return leader
        if choice.until <= self._clock() or choice.leader_epoch != self._epoch(state):
            del self._chosen[state]
            return leader
        if choice.node_id not in self._cluster.metadata.brokers:
            self.give_up(state, "is not in the cluster's metadata")
            return leader
        return choice.node_id

    def follower(self, state: PartitionState) -> int | None:
        """Return the follower that the partition is read from; None if it is read from its leader."""
        choice = self._chosen.get(state)
        return None if choice is None else choice.node_id

    def prefer(self, state: PartitionState, node_id: int) -> None:
        """Fetch from the follower that the leader returned.

        The broker that was just asked is avoided: it would return itself again at once and send no
        records.
        """
        choice, leader = self._chosen.pop(state, None), self._cluster.metadata.leader(state.partition)
        if leader is not None and node_id == leader.node_id:
            self._avoid(state, node_id, "is named as a follower to fetch from, and is the leader")
            return
        if choice is not None and node_id == choice.node_id:
            self._avoid(state, node_id, "names itself as the follower to fetch from, again and again")
            return
        seconds = self._cluster.options.metadata_max_age_ms / 1000
        self._chosen[state] = _Choice(node_id, self._epoch(state), self._clock() + seconds)
        self._named[node_id].append(state.partition)

    def give_up(self, state: PartitionState, why: str) -> bool:
        """Return to the leader. Return False if the partition was already fetched from the leader."""
        choice = self._chosen.pop(state, None)
        if choice is None:
            return False
        self._avoid(state, choice.node_id, why)
        return True

    def _avoid(self, state: PartitionState, node_id: int, why: str) -> None:
        self._given_up[node_id, why].append(state.partition)
        self._avoided_until[state] = self._clock() + _AVOIDS_S
        self._cluster.want_metadata()

    def log_changes(self) -> None:
        """Log the changes made by `prefer` and `give_up` since the last call."""
        if self._named:
            seconds = self._cluster.options.metadata_max_age_ms / 1000
            for node_id, partitions in self._named.items():
                _log.info(
                    "fetched from a follower: broker=%d for %.0f s: %s", node_id, seconds, joined_names(partitions)
                )
            self._named.clear()
        if self._given_up:
            for (node_id, why), partitions in self._given_up.items():
                _log.warning("fetched from the leader again: broker %d %s: %s", node_id, why, joined_names(partitions))
            self._given_up.clear()

    def rack_id(self, states: Iterable[PartitionState], rack: str) -> str:
        """Return the rack to send in a fetch of these partitions.

        It is empty while one of them must not be redirected to a follower.
        """
        if self._avoided_until:
            now = self._clock()
            self._avoided_until = {state: until for state, until in self._avoided_until.items() if until > now}
            if any(state in self._avoided_until for state in states):
                return ""
        return rack

    def forget(self, state: PartitionState) -> None:
        """Discard the state of a partition that is no longer fetched."""
        self._chosen.pop(state, None)
        self._avoided_until.pop(state, None)

    def _epoch(self, state: PartitionState) -> int | None:
        leader = self._cluster.metadata.leader(state.partition)
        return None if leader is None else leader.epoch
