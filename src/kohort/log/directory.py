"""The data directory: its lock, format, cluster, topics and configs.

It contains:

    kohort.json              format, cluster id, leader epoch, whether the last owner closed it
    lock                     held by flock, which the kernel releases when a process dies
    topics.json              every topic with its id, partitions and configs
    configs.json             configs of other resources, such as groups, by kind and name
    <topic>-<n>/             one partition, as in Kafka:
        00000000000000000000.log    raw batches; the name is the first offset
        00000000000000000000.index  its sidecar: sparse index and producers
        start-offset                start offset that DeleteRecords set
        compacted-to, *.swap, ...   files of compaction: see names.py
"""

import fcntl
import json
import os
import re
from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from kohort.log.api import BadDataDirectory, DataDirectoryInUse, Topic
from kohort.log.kept_configs import AllConfigs
from kohort.log.memory import fresh_cluster_id
from kohort.model import UUID

FORMAT = 1
CLUSTER_FORMAT = 3
"""Format of a directory that several brokers share: see `kohort.log.cluster`."""
OLDER_CLUSTER_FORMAT = 2
"""Format of version 0.1, whose image has no replicas and whose brokers would drop them."""
_MAX_EPOCH = 2**31 - 1
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class DataDirectory:
    """An open, locked data directory. Opening it starts a new leader epoch."""

    def __init__(self, path: Path, cluster_id: str | None = None) -> None:
        """Open the directory, creating it if necessary. Raises DataDirectoryInUse, BadDataDirectory."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = _lock(path)
        except OSError as error:
            raise BadDataDirectory(f"cannot use {path} as the data directory: {error.strerror}") from None
        try:
            self._begin(cluster_id)
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, OSError):
                raise BadDataDirectory(f"cannot write to the data directory {path}: {error.strerror}") from None
            raise

    def _begin(self, cluster_id: str | None) -> None:
        meta = read_json(self.path / "kohort.json")
        if meta is None:
            refuse_foreign_files(self.path)
            meta = {"format": FORMAT, "cluster_id": cluster_id or fresh_cluster_id(), "epoch": -1, "clean": True}
        if meta.get("format") in (CLUSTER_FORMAT, OLDER_CLUSTER_FORMAT):
            raise BadDataDirectory(f"the data directory {self.path} is a cluster's; start it with kohort cluster")
        self.cluster_id = check_meta(self.path, meta, FORMAT, cluster_id)
        epoch = last_epoch(self.path, meta)
        self.leader_epoch = epoch + 1
        self._write_meta(clean=False)

    def close(self, *, clean: bool) -> None:
        """Release the lock; `clean` tells the next owner that it need not look for torn tails."""
        try:
            if clean:
                self._write_meta(clean=True)
        finally:
            os.close(self._lock)

    def read_topics(self) -> list[Topic]:
        """Return the topics that `write_topics` stored."""
        return read_topics(self.path)

    def write_topics(self, topics: Iterable[Topic]) -> None:
        """Store all topics; durable when this returns."""
        stored = [topic_to_json(topic) for topic in topics]
        write_durably(self.path / "topics.json", json.dumps({"topics": stored}, indent=1).encode())

    def read_configs(self) -> dict[str, dict[str, dict[str, str]]]:
        """Return the configs that `write_configs` stored."""
        return read_configs(self.path)

    def write_configs(self, configs: AllConfigs) -> None:
        """Store all configs; durable when this returns."""
        stored = {kind: {name: dict(values) for name, values in names.items()} for kind, names in configs.items()}
        write_durably(self.path / "configs.json", json.dumps(stored, indent=1).encode())

    def _write_meta(self, *, clean: bool) -> None:
        meta = {"format": FORMAT, "cluster_id": self.cluster_id, "epoch": self.leader_epoch, "clean": clean}
        write_durably(self.path / "kohort.json", json.dumps(meta).encode())


def refuse_foreign_files(path: Path, ours: Set[str] = frozenset()) -> None:
    """Raise BadDataDirectory if the directory contains files other than `ours`.

    Without this check, a wrong --data would write a log among a user's files.
    """
    # A new file system contains lost+found.
    foreign = {entry.name for entry in os.scandir(path)} - {"lock", "lost+found", "kohort.json.new"} - ours
    if foreign:
        detail = f"is not empty and not a data directory of kohort (it holds {min(foreign)!r}); choose another one"
        raise BadDataDirectory(f"{path} {detail}")


def check_meta(path: Path, meta: Mapping[str, Any], format_: int, cluster_id: str | None) -> str:
    """Return the cluster ID. Raises BadDataDirectory if the format or the cluster is not the expected one."""
    if meta.get("format") != format_:
        detail = f"has format {meta.get('format')!r}, this version of kohort reads {format_}"
        raise BadDataDirectory(f"the data directory {path} {detail}; use the version that made it")
    found = meta.get("cluster_id")
    if not isinstance(found, str):
        raise BadDataDirectory(f"{path / 'kohort.json'} is damaged: cluster {found!r}")
    if cluster_id is not None and found != cluster_id:
        raise BadDataDirectory(f"the data directory {path} belongs to cluster {found}, not {cluster_id}")
    return found


def last_epoch(path: Path, meta: Mapping[str, Any]) -> int:
    """Return the leader epoch of the last broker that used the directory alone; -1 if there was none."""
    epoch = meta.get("epoch")
    if not isinstance(epoch, int) or not -1 <= epoch < _MAX_EPOCH:
        raise BadDataDirectory(f"{path / 'kohort.json'} is damaged: epoch {epoch!r}")
    return epoch


def read_topics(path: Path) -> list[Topic]:
    """Return the topics of a stand-alone broker."""
    stored = read_json(path / "topics.json")
    if stored is None:
        return []
    try:
        topics = [topic_of_json(topic) for topic in stored["topics"]]
    except (KeyError, TypeError, ValueError) as error:
        raise BadDataDirectory(f"{path / 'topics.json'} is damaged: {error!r}") from None
    for topic in topics:
        check_topic_name(topic.name)
    return topics


def read_configs(path: Path) -> dict[str, dict[str, dict[str, str]]]:
    """Return the configs of a stand-alone broker."""
    stored = read_json(path / "configs.json") or {}
    try:
        return {
            kind: {name: {str(key): str(value) for key, value in configs.items()} for name, configs in names.items()}
            for kind, names in stored.items()
        }
    except AttributeError as error:
        raise BadDataDirectory(f"{path / 'configs.json'} is damaged: {error!r}") from None


def topic_to_json(topic: Topic) -> dict[str, Any]:
    """Return the JSON object that `topic_of_json` parses."""
    return {
        "id": str(topic.topic_id),
        "name": topic.name,
        "partitions": topic.partitions,
        "configs": dict(topic.configs),
    }


def topic_of_json(stored: Mapping[str, Any]) -> Topic:
    """Parse a topic. Raises KeyError, TypeError, ValueError."""
    return Topic(UUID(stored["id"]), stored["name"], int(stored["partitions"]), dict(stored["configs"]))


def check_topic_name(name: str) -> None:
    """Reject a name that leads out of the data directory. The broker has already applied Kafka's rules."""
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise BadDataDirectory(f"the topic name {name!r} cannot be the name of a directory")


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file atomically: after a crash it has either the old or the new content."""
    fresh = path.with_name(path.name + ".new")
    with fresh.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(path: Path) -> int:
    descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):  # a file system without locks
            raise
        who = f"process {owner}" if owner else "another process"
        detail = f"is in use by {who}; stop it, or choose another directory"
        raise DataDirectoryInUse(f"the data directory {path} {detail}") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if the file does not exist."""
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise BadDataDirectory(f"{path} is damaged: {error}") from None
    if not isinstance(value, dict):
        raise BadDataDirectory(f"{path} is damaged: it holds no object")
    return value
