"""Which replica a partition is fetched from: its leader, or the follower that the leader names (KIP-392).

A leader with a replica selector names the replica in the reader's rack (`client_rack`). As by Apache Kafka's consumer,
it is used for metadata_max_age_ms, and no longer when it fails or when the partition has another leader.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kohort.client.cluster import Cluster
from kohort.client.partition import PartitionState

_log = logging.getLogger(__name__)

_AVOIDS_S = 10.0
"""How long a leader whose follower failed is not asked for one. It names a dead follower until it knows of its death,
by default for 9 s (broker.session.timeout.ms)."""


@dataclass(frozen=True, slots=True)
class _Choice:
    """A follower, named by the leader of that epoch."""

    node_id: int
    leader_epoch: int | None
    until: float


class ReadReplicas:
    """Of one consumer."""

    def __init__(self, cluster: Cluster, clock: Callable[[], float]) -> None:
        self._cluster = cluster
        self._clock = clock
        self._chosen: dict[PartitionState, _Choice] = {}
        self._avoided_until: dict[PartitionState, float] = {}

    def source(self, state: PartitionState) -> int:
        """The broker to fetch it from. Raises a retriable KafkaError where nobody leads it."""
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

    def prefer(self, state: PartitionState, node_id: int) -> None:
        """Fetch from this follower from now on, as the leader says."""
        seconds = self._cluster.options.metadata_max_age_ms / 1000
        self._chosen[state] = _Choice(node_id, self._epoch(state), self._clock() + seconds)
        _log.info("fetched from a follower: partition=%s broker=%d for %.0f s", state.partition, node_id, seconds)

    def give_up(self, state: PartitionState, why: str) -> bool:
        """Go back to the leader. False where it was the leader that it was fetched from."""
        choice = self._chosen.pop(state, None)
        if choice is None:
            return False
        _log.warning(
            "fetched from the leader again: partition=%s: its replica at broker %d %s",
            state.partition,
            choice.node_id,
            why,
        )
        self._avoided_until[state] = self._clock() + _AVOIDS_S
        self._cluster.want_metadata()
        return True

    def rack_id(self, states: Iterable[PartitionState], rack: str) -> str:
        """The rack to name in a fetch of these: none while one of them must not be sent to a follower again."""
        if self._avoided_until:
            now = self._clock()
            self._avoided_until = {state: until for state, until in self._avoided_until.items() if until > now}
            if any(state in self._avoided_until for state in states):
                return ""
        return rack

    def forget(self, state: PartitionState) -> None:
        """It is fetched no longer."""
        self._chosen.pop(state, None)
        self._avoided_until.pop(state, None)

    def _epoch(self, state: PartitionState) -> int | None:
        leader = self._cluster.metadata.leader(state.partition)
        return None if leader is None else leader.epoch
