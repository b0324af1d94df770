"""Logs of one broker of a cluster. It opens only partitions that it leads by the cluster's image."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kohort.log.api import Topic, TopicExists
from kohort.log.cluster.directory import ClusterDirectory
from kohort.log.cluster.follower_log import FollowerLog
from kohort.log.cluster.image import NOBODY, ClusterImage, PartitionId, Transition
from kohort.log.cluster.published_offsets import PublishedOffsetsWriter
from kohort.log.cluster.replicas import ONE_REPLICA, Placement
from kohort.log.directory import check_topic_name
from kohort.log.kept_configs import with_changes
from kohort.log.partition_files import MAX_OPEN_FILES, PartitionFiles
from kohort.model import UUID, TopicPartition


class ImageStore(Protocol):
    """Storage of the image."""

    node_id: int
    cluster_id: str

    def read(self) -> ClusterImage:
        """Return the current image. Raises OSError, KohortError."""
        ...

    def change(self, transition: Transition) -> ClusterImage:
        """Apply `transition`, store the new image durably and return it.

        If `transition` raises, the image stays unchanged. Raises OSError.
        """
        ...

    def close(self) -> None:
        """Release the storage: this broker leaves the cluster."""
        ...


class SharedStore(PartitionFiles):
    """A `LogStore` whose topics are those of the image.

    Its image is that of the last `follow`, or of this broker's last change. A broker that leads a
    partition by its image does so until it gives the partition up itself or is declared dead.
    """

    def __init__(self, home: ImageStore, path: Path, max_open_files: int, *, durable: bool = True) -> None:
        """Open the store. It closes `home`, even if this raises."""
        self.home = home
        try:
            super().__init__(path, None, max_open_files, durable=durable)
            self.image = home.read()
        except BaseException:
            home.close()
            raise
        self._topics = self._named()
        self._giving: set[PartitionId] = set()

    @property
    def cluster_id(self) -> str:
        return self.home.cluster_id

    # The image

    def follow(self, image: ClusterImage) -> None:
        """Apply an image's topics and configs. The caller closes partitions that this broker does not lead any more."""
        before, self.image = self.image, image
        if image.topics != before.topics or image.deleting != before.deleting:
            self._topics = self._named()
            for topic in self._topics.values():
                if topic != before.topics.get(topic.topic_id):
                    self._reconfigure(topic)

    def leads(self, partition_id: PartitionId) -> bool:
        """Return whether this broker leads an existing partition and has not begun to give it up."""
        leaders = self.image.leaders.get(partition_id.topic_id, ())
        return (
            0 <= partition_id.partition < len(leaders)
            and leaders[partition_id.partition].node_id == self.home.node_id
            and partition_id not in self._giving
            and partition_id.topic_id not in self.image.deleting
        )

    def stop_leading(self, partition_ids: Collection[PartitionId]) -> None:
        """Reject new appends to these partitions; call `close_stopped` once the queued ones are settled."""
        self._giving.update(partition_ids)

    def compacts(self, partition_id: PartitionId) -> bool:
        """Return whether a compaction still uses the partition's files."""
        log = self._logs.get(partition_id)
        return log is not None and log.compacting

    def close_stopped(self, partition_ids: Collection[PartitionId]) -> None:
        """Close stopped partitions; call `given_up` once the image has new leaders for them."""
        for partition_id in partition_ids:
            log = self._logs.pop(partition_id, None)
            if log is not None:
                assert not log.unsettled, "given up with appends under way"
                self._finish(log)
                with self.files.writing:
                    self._close(log)
        self.files.run_cleanup_tasks()

    @property
    def kept(self) -> list[PartitionId]:
        """Partitions that were to be handed over, but that the image leaves to this broker after all."""
        here = self.home.node_id
        return sorted(
            partition_id
            for partition_id in self._giving
            if partition_id.topic_id in self.image.leaders
            and self.image.leader(partition_id).node_id == here
            and self.image.leader(partition_id).following == NOBODY
        )

    def given_up(self, partition_ids: Collection[PartitionId], image: ClusterImage) -> None:
        """Forget given-up partitions that have other leaders in that image.

        The remaining ones are `kept`, or will be given to another broker.
        """
        if image.version > self.image.version:
            self.follow(image)
        here = self.home.node_id
        led = {
            partition_id
            for partition_id in partition_ids
            if partition_id.topic_id in image.leaders and image.leader(partition_id).node_id == here
        }
        self._giving.difference_update(set(partition_ids) - led)

    def take_back(self, partition_ids: Collection[PartitionId]) -> None:
        """Lead partitions again that are `kept`."""
        self._giving.difference_update(partition_ids)

    def remove_deleted(self) -> None:
        """Remove the files of deleted topics that this broker leads."""
        node_id = self.home.node_id
        with self.files.writing:
            for partition_id, _ in self.image.led_by(node_id):
                if partition_id.topic_id in self.image.deleting:
                    topic = self.image.topics[partition_id.topic_id]
                    self._remove(topic, [partition_id.partition])
                    directory = self._directory(TopicPartition(topic.name, partition_id.partition))
                    if directory.exists():
                        self._move_aside(directory)
        self.follow(self.home.change(lambda image: image.removed(node_id)))

    def _named(self) -> dict[str, Topic]:
        image = self.image
        return {topic.name: topic for topic_id, topic in image.topics.items() if topic_id not in image.deleting}

    # Topics

    def topics(self) -> Mapping[str, Topic]:
        return self._topics

    def create_topic(self, topic: Topic, placement: Placement = ONE_REPLICA) -> None:
        """Create a topic. Raises TooFewBrokers, TopicExists."""
        check_topic_name(topic.name)
        self._config(topic)

        def create(image: ClusterImage) -> ClusterImage:
            if image.named(topic.name) is not None:
                self.follow(image)
                raise TopicExists(topic.name)
            return image.created(topic, placement)

        self.follow(self.home.change(create))

    def alter_topic(self, topic: Topic, placement: Placement = ONE_REPLICA) -> None:
        """Change a topic; `placement` applies to new partitions. Raises TooFewBrokers."""
        self._config(topic)

        def alter(image: ClusterImage) -> ClusterImage:
            known = image.topics[topic.topic_id]
            grown = replace(topic, partitions=max(topic.partitions, known.partitions))
            return image.altered(grown, placement)

        self.follow(self.home.change(alter))

    def delete_topic(self, topic_id: UUID) -> None:
        self.follow(self.home.change(lambda image: image.deleted(topic_id)))
        self.remove_deleted()

    # Configs of other resources

    def configs(self, kind: str) -> Mapping[str, Mapping[str, str]]:
        return self.image.configs.get(kind, {})

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        self.follow(self.home.change(lambda image: image.configured(kind, name, configs)))

    def update_configs(self, kind: str, name: str, update: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        def updated(image: ClusterImage) -> ClusterImage:
            before = image.configs.get(kind, {}).get(name, {})
            after = update(before)
            return image if after == before else image.configured(kind, name, after)

        self.follow(self.home.change(updated))

    def change_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        self.update_configs(kind, name, lambda before: with_changes(before, changes))

    # Partitions

    def _topic(self, topic_id: UUID) -> Topic:
        return self.image.topics[topic_id]

    def _leader_epoch(self, topic_id: UUID, partition: int) -> int:
        partition_id = PartitionId(topic_id, partition)
        assert self.leads(partition_id), f"{partition_id} is led by another broker"
        return self.image.leader(partition_id).epoch

    def _lies_there(self, directory: Path) -> bool:
        return directory.exists()

    def _release(self, *, clean: bool) -> None:
        self.files.close()
        self.home.close()


class ClusterStore(SharedStore):
    """A `SharedStore` in one directory of one host."""

    def follow_log(self, partition_id: PartitionId) -> FollowerLog:
        """Open a partition that another broker leads. Raises OSError if the leader does not publish its offsets."""
        topic = self.image.topics[partition_id.topic_id]
        directory = self._directory(TopicPartition(topic.name, partition_id.partition))
        return FollowerLog(partition_id, directory, self.image.leader(partition_id).epoch)

    def mark_writer(self, partition_id: PartitionId) -> PublishedOffsetsWriter:
        """Return a writer that publishes the offsets of a partition that this broker leads. Raises OSError."""
        topic = self.image.topics[partition_id.topic_id]
        return PublishedOffsetsWriter(self._directory(TopicPartition(topic.name, partition_id.partition)))

    def __init__(
        self,
        path: Path,
        node_id: int,
        cluster_id: str | None = None,
        *,
        max_open_files: int = MAX_OPEN_FILES,
        durable: bool = True,
    ) -> None:
        """Open or create the directory. If not `durable`, a crash of the machine may lose acknowledged records.

        Raises DataDirectoryInUse, BadDataDirectory.
        """
        self.directory = ClusterDirectory(path.absolute(), node_id, cluster_id)
        super().__init__(self.directory, self.directory.path, max_open_files, durable=durable)
