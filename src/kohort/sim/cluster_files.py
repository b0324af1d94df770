"""The directory that the brokers of a cluster share: production's image, locks, partitions, and who opened which last.

The files are real, in a directory of the world, and so are the locks: that all brokers are one process makes no
difference to them. Beats are told by the world's clock.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from kohort.log import Topic
from kohort.log.cluster import ClusterImage
from kohort.log.cluster.directory import ClusterDirectory
from kohort.log.cluster.image import Transition
from kohort.log.cluster.processes import ProcessIdentity
from kohort.log.cluster.store import ClusterStore, SharedStore
from kohort.log.partition import SegmentedLog
from kohort.log.partition_files import MAX_OPEN_FILES
from kohort.sim.disk import CLUSTER_ID, PartitionId, SimulatedStore
from kohort.sim.files import FilesDisk, WitnessedFiles


class ClusterDisk(FilesDisk):
    """What is known of the directory."""

    is_exclusive = False

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        """How often the image was changed."""
        self.opened: dict[PartitionId, int] = {}
        """Each partition that a broker led, and the epoch at which it was opened last."""

    def open(self, dice: Random, node_id: int, clock: Callable[[], float]) -> SimulatedStore:
        return ClusterFilesStore(self, dice, node_id, clock)

    def newest(self, partition: PartitionId) -> int:
        return self.opened[partition]


class _Directory(ClusterDirectory):
    """Production's, of a process that is none."""

    def __init__(self, disk: ClusterDisk, node_id: int, clock: Callable[[], float]) -> None:
        self._disk = disk
        self.now_ms = lambda: int(clock() * 1000)
        super().__init__(disk.path, node_id, CLUSTER_ID, ProcessIdentity(node_id, 0, "world", "world"))

    def _identity(self) -> tuple[int, int]:
        # Of the file's inode and time it is not certain what they are in the same world run again.
        return self._disk.version, 0

    def change(self, transition: Transition) -> ClusterImage:
        def counted(before: ClusterImage) -> ClusterImage:
            after = transition(before)
            self._disk.version += after is not before
            return after

        image = super().change(counted)
        self._disk.topics = {one: topic for one, topic in image.topics.items() if one not in image.deleting}
        return image


class ClusterFilesStore(WitnessedFiles, ClusterStore):
    """The store of one broker's life."""

    def __init__(self, disk: ClusterDisk, dice: Random, node_id: int, clock: Callable[[], float]) -> None:
        wanted = list(disk.topics.values())
        self.directory = _Directory(disk, node_id, clock)
        SharedStore.__init__(self, self.directory, disk.path, MAX_OPEN_FILES)
        self.begin(disk, dice)
        self._opened = disk.opened
        for topic in wanted:
            if self.image.named(topic.name) is None:
                self.create_topic(topic)

    def epoch_of(self, log: SegmentedLog) -> int:
        return log.leader_epoch

    def _open(self, topic: Topic, partition: int) -> SegmentedLog:
        log = super()._open(topic, partition)
        self._opened[topic.topic_id, partition] = log.leader_epoch
        if self.disk.looks_at(topic.name):
            self.look_at((topic.topic_id, partition), log)
        return log
