"""Directory that the brokers of a cluster share: production's image, locks, and partitions with their last openers.

The files are real, in a directory of the world, and so are the locks; these work although all
brokers run in one process. Heartbeats use the clock of the world.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kohort.log import MAX_OPEN_FILES, SegmentedLog, Topic
from kohort.log.cluster import ClusterDirectory, ClusterImage, ClusterStore, ProcessIdentity, SharedStore, Transition
from kohort.sim.environment.disk import CLUSTER_ID, PartitionId, SimulatedStore
from kohort.sim.environment.files import FilesDisk, ObservedFiles


class ClusterDisk(FilesDisk):
    """State of the directory."""

    is_exclusive = False

    def __init__(self) -> None:
        super().__init__()
        self.opened: dict[PartitionId, int] = {}
        """Epoch at which each partition was opened last, for partitions that a broker has led."""

    def open(self, rng: Random, node_id: int, clock: Callable[[], float]) -> SimulatedStore:
        return ClusterFilesStore(self, rng, node_id, clock)

    def newest(self, partition: PartitionId) -> int:
        return self.opened[partition]

    def is_newest(self, partition: PartitionId, leader_epoch: int) -> bool:
        return self.opened.get(partition) == leader_epoch


class _Directory(ClusterDirectory):
    """Production's directory, for a process that does not exist."""

    def __init__(self, disk: ClusterDisk, node_id: int, clock: Callable[[], float]) -> None:
        self._disk = disk
        self.now_ms = lambda: int(clock() * 1000)
        super().__init__(disk.path, node_id, CLUSTER_ID, ProcessIdentity(node_id, 0, "world", "world"))

    def change(self, transition: Transition) -> ClusterImage:
        image, before = super().change(transition), self._disk.topics
        self._disk.topics = {
            topic_id: topic for topic_id, topic in image.topics.items() if topic_id not in image.deleting
        }
        for topic_id in before.keys() - self._disk.topics.keys():
            self._disk.deleted(before[topic_id])
        return image


class ClusterFilesStore(ObservedFiles, ClusterStore):
    """Log store of one run of a broker."""

    def __init__(self, disk: ClusterDisk, rng: Random, node_id: int, clock: Callable[[], float]) -> None:
        wanted = list(disk.topics.values())
        self.directory = _Directory(disk, node_id, clock)
        SharedStore.__init__(self, self.directory, disk.path, MAX_OPEN_FILES)
        self.begin(disk, rng)
        self._opened = disk.opened
        for topic in wanted:
            if self.image.named(topic.name) is None:
                self.create_topic(topic)
        for kind, name in list(disk.configs):
            if name not in self.configs(kind):
                self.keep_configs(kind, name, disk.configs[kind, name])

    def epoch_of(self, log: SegmentedLog) -> int:
        return log.leader_epoch

    def _open(self, topic: Topic, partition: int) -> SegmentedLog:
        log = super()._open(topic, partition)
        self._opened[topic.topic_id, partition] = log.leader_epoch
        if self.disk.looks_at(topic.name):
            self.look_at((topic.topic_id, partition), log)
        return log
