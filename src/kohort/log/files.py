"""Store of all topics in local files, for a broker with a data directory of its own."""

import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from kohort.log.api import Topic
from kohort.log.directory import DataDirectory, check_topic_name
from kohort.log.kept_configs import KeptConfigs, with_changes
from kohort.log.partition_files import MAX_OPEN_FILES, PartitionFiles
from kohort.model import UUID, TopicPartition


class FileStore(PartitionFiles):
    """The `LogStore` of a broker that shares its data directory with no other broker."""

    def __init__(
        self,
        path: Path | str,
        *,
        cluster_id: str | None = None,
        defaults: Mapping[str, str] | None = None,
        max_open_files: int = MAX_OPEN_FILES,
    ) -> None:
        """Open or create a data directory. `defaults` are configs for topics that do not set them.

        Raises DataDirectoryInUse, BadDataDirectory.
        """
        self.directory = DataDirectory(Path(path).absolute(), cluster_id)
        try:
            topics = self.directory.read_topics()
            self._configs = KeptConfigs(self.directory.read_configs(), self.directory.write_configs)
            super().__init__(self.directory.path, defaults, max_open_files)
        except BaseException:
            self.directory.close(clean=False)
            raise
        self._topics = {topic.name: topic for topic in topics}
        self._names = {topic.topic_id: topic.name for topic in topics}
        self._present = {entry.name for entry in os.scandir(self.path) if entry.is_dir()}
        for name in self._present:
            if name.endswith("-delete"):
                self.files.cleanup_tasks.append(partial(shutil.rmtree, self.path / name))

    @property
    def cluster_id(self) -> str:
        return self.directory.cluster_id

    # Topics

    def topics(self) -> Mapping[str, Topic]:
        return self._topics

    def create_topic(self, topic: Topic) -> None:
        assert topic.name not in self._topics and topic.topic_id not in self._names
        check_topic_name(topic.name)
        self._config(topic)
        self._discard_directories(topic.name, range(topic.partitions))
        self._put(topic)
        self._names[topic.topic_id] = topic.name

    def alter_topic(self, topic: Topic) -> None:
        before = self._topics[topic.name]
        assert topic.topic_id == before.topic_id and topic.partitions >= before.partitions
        self._config(topic)
        self._discard_directories(topic.name, range(before.partitions, topic.partitions))
        self._put(topic)
        self._reconfigure(topic)

    def delete_topic(self, topic_id: UUID) -> None:
        topic = self._topic(topic_id)
        self.directory.write_topics(other for other in self._topics.values() if other is not topic)
        del self._topics[self._names.pop(topic_id)]
        with self.files.writing:
            self._remove(topic, range(topic.partitions))
            self._discard_directories(topic.name, range(topic.partitions))

    def _put(self, topic: Topic) -> None:
        self.directory.write_topics([*(other for other in self._topics.values() if other.name != topic.name), topic])
        self._topics[topic.name] = topic

    def _discard_directories(self, name: str, partitions: range) -> None:
        """Move aside existing directories with these names: of a deleted topic, or of an interrupted deletion."""
        for number in partitions:
            directory = self._directory(TopicPartition(name, number))
            if directory.name in self._present:
                self._present.discard(directory.name)
                if directory.exists():
                    self._move_aside(directory)

    # Configs of other resources

    def configs(self, kind: str) -> Mapping[str, Mapping[str, str]]:
        return self._configs.of_kind(kind)

    def keep_configs(self, kind: str, name: str, configs: Mapping[str, str]) -> None:
        self._configs.keep(kind, name, configs)

    def update_configs(self, kind: str, name: str, update: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
        before = self.configs(kind).get(name, {})
        after = update(before)
        if after != before:
            self.keep_configs(kind, name, after)

    def change_configs(self, kind: str, name: str, changes: Mapping[str, str | None]) -> None:
        self.update_configs(kind, name, lambda before: with_changes(before, changes))

    # Partitions

    def abandon(self) -> None:
        """Release the directory as a crash does: pending appends are lost, and the next owner recovers."""
        self._release(clean=False)

    def _topic(self, topic_id: UUID) -> Topic:
        return self._topics[self._names[topic_id]]

    def _leader_epoch(self, topic_id: UUID, partition: int) -> int:
        return self.directory.leader_epoch

    def _lies_there(self, directory: Path) -> bool:
        if directory.name in self._present:
            return True
        self._present.add(directory.name)
        return False

    def _release(self, *, clean: bool) -> None:
        self.files.close()
        self.directory.close(clean=clean)
