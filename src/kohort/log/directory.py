"""The data directory: whose it is, who holds it, which format it has, which topics are in it.

kohort.json              format, cluster id, leader epoch, whether the last owner closed it
lock                     held by flock, which the kernel releases when a process dies
topics.json              every topic with its id, partitions and configs
configs.json             configs of what is no topic, such as groups, by kind and name
<topic>-<n>/             one partition, as in Kafka:
    00000000000000000000.log    raw batches; the name is the first offset
    00000000000000000000.index  its sidecar: sparse index and producers
    start-offset                where DeleteRecords moved the start to
    compacted-to, *.swap, ...   what compaction leaves: see names.py
"""

import fcntl
import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kohort.log.api import BadDataDirectory, DataDirectoryInUse, Topic
from kohort.log.kept_configs import AllConfigs
from kohort.log.memory import fresh_cluster_id
from kohort.model import UUID

FORMAT = 1
_MAX_EPOCH = 2**31 - 1
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


class DataDirectory:
    """An open, locked data directory. Every open begins a new leader epoch."""

    def __init__(self, path: Path, cluster_id: str | None = None) -> None:
        """Create it if need be. Raises DataDirectoryInUse, BadDataDirectory."""
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
        meta = _read_json(self.path / "kohort.json")
        if meta is None:
            self._refuse_foreign_files()
            meta = {"format": FORMAT, "cluster_id": cluster_id or fresh_cluster_id(), "epoch": -1, "clean": True}
        if meta.get("format") != FORMAT:
            detail = f"has format {meta.get('format')!r}, this version of kohort reads {FORMAT}"
            raise BadDataDirectory(f"the data directory {self.path} {detail}; use the version that made it")
        its_cluster, epoch = meta.get("cluster_id"), meta.get("epoch")
        if not isinstance(its_cluster, str) or not isinstance(epoch, int) or not -1 <= epoch < _MAX_EPOCH:
            raise BadDataDirectory(f"{self.path / 'kohort.json'} is damaged: cluster {its_cluster!r}, epoch {epoch!r}")
        if cluster_id is not None and its_cluster != cluster_id:
            detail = f"belongs to cluster {its_cluster}, not {cluster_id}"
            raise BadDataDirectory(f"the data directory {self.path} {detail}")
        self.cluster_id = its_cluster
        self.leader_epoch = epoch + 1
        self._write_meta(clean=False)

    def close(self, *, clean: bool) -> None:
        """Release the lock; `clean` says that the next owner need not look for torn tails."""
        try:
            if clean:
                self._write_meta(clean=True)
        finally:
            os.close(self._lock)

    def read_topics(self) -> list[Topic]:
        """The topics that `write_topics` left."""
        stored = _read_json(self.path / "topics.json")
        if stored is None:
            return []
        try:
            topics = [
                Topic(UUID(one["id"]), one["name"], int(one["partitions"]), dict(one["configs"]))
                for one in stored["topics"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise BadDataDirectory(f"{self.path / 'topics.json'} is damaged: {error!r}") from None
        for topic in topics:
            check_topic_name(topic.name)
        return topics

    def write_topics(self, topics: Iterable[Topic]) -> None:
        """Durable when it returns."""
        stored = [
            {"id": str(one.topic_id), "name": one.name, "partitions": one.partitions, "configs": dict(one.configs)}
            for one in topics
        ]
        write_durably(self.path / "topics.json", json.dumps({"topics": stored}, indent=1).encode())

    def read_configs(self) -> dict[str, dict[str, dict[str, str]]]:
        """What `write_configs` left."""
        stored = _read_json(self.path / "configs.json") or {}
        try:
            return {
                kind: {
                    name: {str(key): str(value) for key, value in configs.items()} for name, configs in names.items()
                }
                for kind, names in stored.items()
            }
        except AttributeError as error:
            raise BadDataDirectory(f"{self.path / 'configs.json'} is damaged: {error!r}") from None

    def write_configs(self, configs: AllConfigs) -> None:
        """Durable when it returns."""
        stored = {kind: {name: dict(one) for name, one in names.items()} for kind, names in configs.items()}
        write_durably(self.path / "configs.json", json.dumps(stored, indent=1).encode())

    def _write_meta(self, *, clean: bool) -> None:
        meta = {"format": FORMAT, "cluster_id": self.cluster_id, "epoch": self.leader_epoch, "clean": clean}
        write_durably(self.path / "kohort.json", json.dumps(meta).encode())

    def _refuse_foreign_files(self) -> None:
        # A wrong --data must not mix a log into somebody's files; lost+found is what a fresh file system holds.
        foreign = {entry.name for entry in os.scandir(self.path)} - {"lock", "lost+found", "kohort.json.new"}
        if foreign:
            detail = f"is not empty and not a data directory of kohort (it holds {min(foreign)!r}); choose another one"
            raise BadDataDirectory(f"{self.path} {detail}")


def check_topic_name(name: str) -> None:
    """Refuse a name that would leave the data directory. The broker has checked it by Kafka's rules before."""
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        raise BadDataDirectory(f"the topic name {name!r} cannot be the name of a directory")


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file as a whole: after a crash it has the old content or the new one."""
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
    except OSError:
        owner = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        who = f"process {owner}" if owner else "another process"
        detail = f"is in use by {who}; stop it, or choose another directory"
        raise DataDirectoryInUse(f"the data directory {path} {detail}") from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValueError, RecursionError) as error:
        raise BadDataDirectory(f"{path} is damaged: {error}") from None
    if not isinstance(value, dict):
        raise BadDataDirectory(f"{path} is damaged: it holds no object")
    return value
