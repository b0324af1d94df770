"""Logs of one broker of a cluster. It opens only partitions that it leads by the cluster's image."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from kohort.log.api import Topic, TopicExists
from kohort.log.cluster.directory import ClusterDirectory
from kohort.log.cluster.followed import FollowerLog
from kohort.log.cluster.image import NOBODY, ClusterImage, PartitionId, Transition
from kohort.log.cluster.marks import PublishedOffsetsWriter
from kohort.log.cluster.replicas import ONE_REPLICA, Placement
from kohort.log.directory import check_topic_name
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

    def leads(self, one: PartitionId) -> bool:
        """Return whether this broker leads an existing partition and has not begun to give it up."""
        leaders = self.image.leaders.get(one.topic_id, ())
        return (
            0 <= one.partition < len(leaders)
            and leaders[one.partition].node_id == self.home.node_id
            and one not in self._giving
            and one.topic_id not in self.image.deleting
        )

    def stop_leading(self, ones: Collection[PartitionId]) -> None:
        """Reject new appends to these partitions; call `close_stopped` once the queued ones are settled."""
        self._giving.update(ones)

    def compacts(self, one: PartitionId) -> bool:
        """Return whether a compaction still uses the partition's files."""
        log = self._logs.get(one)
        return log is not None and log.compacting

    def close_stopped(self, ones: Collection[PartitionId]) -> None:
        """Close stopped partitions; call `given_up` once the image has new leaders for them."""
        for one in ones:
            log = self._logs.pop(one, None)
            if log is not None:
                assert not log.unsettled, "given up with appends under way"
                self._finish(log)
                with self.files.writing:
                    self._close(log)
        self.files.do_chores()

    @property
    def kept(self) -> list[PartitionId]:
        """Partitions that were to be handed over, but that the image leaves to this broker after all."""
        here = self.home.node_id
        return sorted(
            one
            for one in self._giving
            if one.topic_id in self.image.leaders
            and self.image.leader(one).node_id == here
            and self.image.leader(one).following == NOBODY
        )

    def given_up(self, ones: Collection[PartitionId], image: ClusterImage) -> None:
        """Forget given-up partitions that have other leaders in that image.

        The remaining ones are `kept`, or will be given to another broker.
        """
        if image.version > self.image.version:
            self.follow(image)
        here = self.home.node_id
        led = {one for one in ones if one.topic_id in image.leaders and image.leader(one).node_id == here}
        self._giving.difference_update(set(ones) - led)

    def take_back(self, ones: Collection[PartitionId]) -> None:
        """Lead partitions again that are `kept`."""
        self._giving.difference_update(ones)

    def remove_deleted(self) -> None:
        """Remove the files of deleted topics that this broker leads."""
        node_id = self.home.node_id
        with self.files.writing:
            for one, _ in self.image.led_by(node_id):
                if one.topic_id in self.image.deleting:
                    topic = self.image.topics[one.topic_id]
                    self._remove(topic, [one.partition])
                    directory = self._directory(TopicPartition(topic.name, one.partition))
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

    # Partitions

    def _topic(self, topic_id: UUID) -> Topic:
        return self.image.topics[topic_id]

    def _leader_epoch(self, topic_id: UUID, partition: int) -> int:
        one = PartitionId(topic_id, partition)
        assert self.leads(one), f"{one} is led by another broker"
        return self.image.leader(one).epoch

    def _lies_there(self, directory: Path) -> bool:
        return directory.exists()

    def _release(self, *, clean: bool) -> None:
        self.files.close()
        self.home.close()


class ClusterStore(SharedStore):
    """A `SharedStore` in one directory of one host."""

    def follow_log(self, one: PartitionId) -> FollowerLog:
        """Open a partition that another broker leads. Raises OSError if the leader does not publish its offsets."""
        topic = self.image.topics[one.topic_id]
        directory = self._directory(TopicPartition(topic.name, one.partition))
        return FollowerLog(one, directory, self.image.leader(one).epoch)

    def mark_writer(self, one: PartitionId) -> PublishedOffsetsWriter:
        """Return a writer that publishes the offsets of a partition that this broker leads. Raises OSError."""
        topic = self.image.topics[one.topic_id]
        return PublishedOffsetsWriter(self._directory(TopicPartition(topic.name, one.partition)))

    def __init__(
        self, path: Path, node_id: int, cluster_id: str | None = None, *, max_open_files: int = MAX_OPEN_FILES
    ) -> None:
        """Open or create the directory. Raises DataDirectoryInUse, BadDataDirectory."""
        self.directory = ClusterDirectory(path.absolute(), node_id, cluster_id)
        super().__init__(self.directory, self.directory.path, max_open_files)
