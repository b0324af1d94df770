"""The data directory of a cluster on one host: several brokers share it, and one file assigns the leaders.

It contains:

    kohort.json           format 3, cluster id
    lock                  held by every broker, shared, so that a stand-alone broker cannot open the directory
    cluster.json          the image: brokers, topics, leaders, configs
    cluster.lock          held during a change of the image
    brokers/<node>.lock   held by a broker while it runs: its process id, its last heartbeat, its process identity
    <topic>-<n>/          as in the directory of a stand-alone broker

Only its leader writes a partition. The leader changes only after the old one has closed the
partition or is dead: a broker is declared dead only if its lock is free.
"""

import errno
import json
import logging
import os
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Any

from kohort.log.api import BadDataDirectory, DataDirectoryInUse
from kohort.log.cluster.encoding import decode_image, encode_image
from kohort.log.cluster.image import ClusterImage, Transition
from kohort.log.cluster.locks import Busy, FileLock, WatchedLock, is_held, locked
from kohort.log.cluster.processes import ProcessIdentity, this_process
from kohort.log.directory import (
    CLUSTER_FORMAT,
    FORMAT,
    OLDER_CLUSTER_FORMAT,
    check_meta,
    last_epoch,
    read_configs,
    read_json,
    read_topics,
    refuse_foreign_files,
    write_durably,
)
from kohort.log.memory import fresh_cluster_id

_LOCK_TIMEOUT_S = 0.1
"""Maximum wait for a change of the image, in seconds: one takes a few milliseconds unless its process hangs."""
_START_LOCK_TIMEOUT_S = 2.0
"""Maximum wait at start-up, in seconds: nothing depends on a broker that is still starting."""
_OURS = frozenset({"brokers", "cluster.lock", "cluster.json", "cluster.json.new"})

log = logging.getLogger("kohort.log")


@dataclass(frozen=True, slots=True)
class BrokerState:
    """The last heartbeat of a broker."""

    process: ProcessIdentity
    at_ms: int
    """Time in milliseconds by the monotonic clock, which all processes of a host share."""


class ClusterDirectory:
    """A shared data directory, opened by one broker."""

    now_ms: Callable[[], int] = staticmethod(lambda: time.monotonic_ns() // 1_000_000)
    """Clock of the heartbeats. A simulation replaces it, and has no real processes."""

    def __init__(
        self, path: Path, node_id: int, cluster_id: str | None = None, process: ProcessIdentity | None = None
    ) -> None:
        """Open the directory: create it if necessary, or convert that of a stand-alone broker.

        Raises DataDirectoryInUse, BadDataDirectory.
        """
        self.path = path
        self.process = process or this_process()
        self.node_id = node_id
        self._image = path / "cluster.json"
        self._held: list[FileLock] = []
        self._watched: dict[int, WatchedLock] = {}
        """Locks of other brokers: each look needs them."""
        self._seen: BufferedReader | None = None
        """File of the image that was read last. It stays open, so that no later file has its number."""
        try:
            self._enter(cluster_id)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                why = "its file system has no locks" if error.errno in _NO_LOCKS else error.strerror or error
                raise BadDataDirectory(f"cannot use {path} as the data directory of a cluster: {why}") from None
            raise

    def _enter(self, cluster_id: str | None) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        if read_json(self.path / "kohort.json") is None:
            refuse_foreign_files(self.path, _OURS)
        try:
            self._held.append(FileLock(self.path / "lock", shared=True))
        except Busy:
            detail = "is in use by a broker alone; stop it, or choose another directory"
            raise DataDirectoryInUse(f"the data directory {self.path} {detail}") from None
        with locked(self.path / "cluster.lock", _START_LOCK_TIMEOUT_S):
            self.cluster_id = self._begin(cluster_id)
        (self.path / "brokers").mkdir(exist_ok=True)
        try:
            # A process that checks whether a broker is alive holds its lock for a moment.
            self._life = FileLock(self._life_of(self.node_id), timeout_s=_START_LOCK_TIMEOUT_S)
        except Busy:
            detail = f"already has a broker with node id {self.node_id}; choose another one with --node-id"
            raise DataDirectoryInUse(f"the cluster in {self.path} {detail}") from None
        self._held.append(self._life)
        self.heartbeat()

    def _begin(self, cluster_id: str | None) -> str:
        """Ensure that an image exists, from a stand-alone broker's files or empty; return the cluster ID."""
        meta: dict[str, Any] = read_json(self.path / "kohort.json") or {
            "format": FORMAT,
            "cluster_id": cluster_id or fresh_cluster_id(),
            "epoch": -1,
        }
        if meta.get("format") == FORMAT:
            image = ClusterImage(first_epoch=last_epoch(self.path, meta) + 1, configs=read_configs(self.path))
            for topic in read_topics(self.path):
                image = image.created(topic)
            write_durably(self._image, encode_image(image))
            meta = {"format": CLUSTER_FORMAT, "cluster_id": check_meta(self.path, meta, FORMAT, cluster_id)}
            write_durably(self.path / "kohort.json", json.dumps(meta).encode())
        elif meta.get("format") == OLDER_CLUSTER_FORMAT:
            meta = {**meta, "cluster_id": check_meta(self.path, meta, OLDER_CLUSTER_FORMAT, cluster_id)}
            meta = self._upgrade(meta)
        return check_meta(self.path, meta, CLUSTER_FORMAT, cluster_id)

    def _upgrade(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Upgrade the format to this version's. Raises DataDirectoryInUse if a broker of version 0.1 is running."""
        alive = sorted(int(path.stem) for path in (self.path / "brokers").glob("*.lock") if is_held(path))
        if alive:
            numbers = ", ".join(map(str, alive))
            detail = f"is in use by brokers of an older version of kohort ({numbers}); stop all of them first"
            raise DataDirectoryInUse(f"the cluster in {self.path} {detail}")
        log.warning("the cluster in %s is made one of format %d; version 0.1 cannot use it", self.path, CLUSTER_FORMAT)
        meta = {**meta, "format": CLUSTER_FORMAT}
        write_durably(self.path / "kohort.json", json.dumps(meta).encode())
        # A broker of 0.1 that has just read the old format fails on the image, too.
        write_durably(self._image, encode_image(read_image(self.path)))
        return meta

    def close(self) -> None:
        """Release all locks: other brokers consider this one dead from now on."""
        while self._held:
            self._held.pop().close()
        while self._watched:
            self._watched.popitem()[1].close()
        if self._seen is not None:
            self._seen.close()
            self._seen = None

    # The image

    def changed(self) -> bool:
        """Return whether the image differs from the one that was read last."""
        # Every change creates a new file.
        return self._seen is None or not os.path.samestat(self._image.stat(), os.fstat(self._seen.fileno()))

    def read(self) -> ClusterImage:
        """Return the current image. Raises BadDataDirectory."""
        return _decoded(self._image, self._open_image().read())

    def _open_image(self) -> BufferedReader:
        opened = self._image.open("rb")  # it stays open
        if self._seen is not None:
            self._seen.close()
        self._seen = opened
        return opened

    def change(self, transition: Transition) -> ClusterImage:
        """Apply `transition`, store the new image durably and return it.

        If `transition` raises, the image stays unchanged. Raises OSError.
        """
        with locked(self.path / "cluster.lock", _LOCK_TIMEOUT_S):
            before = read_image(self.path)
            after = transition(before)
            if after is not before:
                after = replace(after, version=before.version + 1)
                write_durably(self._image, encode_image(after))
            # Not earlier: the caller does not get what others have changed if this change fails.
            self._open_image()
            return after

    # Liveness

    def heartbeat(self) -> None:
        """Record that this broker is working."""
        process = self.process
        numbers = f"{process.process_id:>12d} {self.now_ms():>20d} {process.started_at:>20d}"
        self._life.write(f"{numbers} {process.namespace} {process.boot_id}\n".encode())

    def is_alive(self, node_id: int) -> bool:
        """Return whether that broker's process exists; it may hang."""
        return self._watch(node_id).is_held()

    def joining(self, nodes: Container[int]) -> list[int]:
        """Return brokers that are alive but not among `nodes`: they have not joined yet, or have left."""
        found = [int(path.stem) for path in (self.path / "brokers").glob("*.lock") if path.stem.isdigit()]
        return [node_id for node_id in found if node_id not in nodes and self.is_alive(node_id)]

    def last_heartbeat(self, node_id: int) -> BrokerState | None:
        """Return that broker's last heartbeat; None if there is none yet."""
        try:
            process_id, at_ms, started_at, namespace, boot_id = self._watch(node_id).read().split()
            return BrokerState(ProcessIdentity(int(process_id), int(started_at), namespace, boot_id), int(at_ms))
        except ValueError:
            return None

    def _watch(self, node_id: int) -> WatchedLock:
        if node_id not in self._watched:
            self._watched[node_id] = WatchedLock(self._life_of(node_id))
        return self._watched[node_id]

    def _life_of(self, node_id: int) -> Path:
        return self.path / "brokers" / f"{node_id}.lock"


def read_image(directory: Path) -> ClusterImage:
    """Return the image of the cluster in that directory, without joining it. Raises BadDataDirectory, OSError."""
    path = directory / "cluster.json"
    return _decoded(path, path.read_bytes())


def _decoded(path: Path, data: bytes) -> ClusterImage:
    try:
        return decode_image(data)
    except ValueError as error:
        raise BadDataDirectory(f"{path} is damaged: {error}") from None


_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
