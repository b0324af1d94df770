"""The data directory of a cluster on one host: several brokers, and one file that says who leads what.

kohort.json           format 3, cluster id
lock                  every broker shares it, so that a broker alone keeps out
cluster.json          the image: brokers, topics, leaders, configs
cluster.lock          held while somebody changes the image
brokers/<node>.lock   held by a broker as long as it lives: its process id, its last beat, which process it is
<topic>-<n>/          as in the directory of a broker alone

A partition is written by its leader only, and it changes its leader only when that one has closed it or is dead:
whoever declares a broker dead has seen that its lock is free.
"""

import errno
import json
import logging
import time
from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kohort.log.api import BadDataDirectory, DataDirectoryInUse
from kohort.log.cluster.encoding import decode_image, encode_image
from kohort.log.cluster.image import ClusterImage, Transition
from kohort.log.cluster.locks import Busy, FileLock, is_held, locked
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

_PATIENCE_S = 0.1
"""A change takes a few milliseconds; whoever holds the image longer stands still."""
_START_PATIENCE_S = 2.0
"""Nobody waits for a broker that starts."""
_OURS = frozenset({"brokers", "cluster.lock", "cluster.json", "cluster.json.new"})

log = logging.getLogger("kohort.log")


@dataclass(frozen=True, slots=True)
class Beat:
    """What a broker last said of itself."""

    process: ProcessIdentity
    at_ms: int
    """By the monotonic clock, which all processes of a host share."""


class ClusterDirectory:
    """One broker's hold on the directory that it shares."""

    now_ms: Callable[[], int] = staticmethod(lambda: time.monotonic_ns() // 1_000_000)
    """The clock of beats. A simulation has another one, and processes that are none."""

    def __init__(
        self, path: Path, node_id: int, cluster_id: str | None = None, process: ProcessIdentity | None = None
    ) -> None:
        """Create it if need be, or take over a broker's that was alone. Raises DataDirectoryInUse, BadDataDirectory."""
        self.path = path
        self.process = process or this_process()
        self.node_id = node_id
        self._held: list[FileLock] = []
        self._seen: tuple[int, int] | None = None
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
        with locked(self.path / "cluster.lock", _START_PATIENCE_S):
            self.cluster_id = self._begin(cluster_id)
        (self.path / "brokers").mkdir(exist_ok=True)
        try:
            # Whoever looks whether a broker lives holds its lock for a moment.
            self._life = FileLock(self._life_of(self.node_id), patience_s=_START_PATIENCE_S)
        except Busy:
            detail = f"has a broker with node id {self.node_id} already; give this one another by --node-id"
            raise DataDirectoryInUse(f"the cluster in {self.path} {detail}") from None
        self._held.append(self._life)
        self.beat()

    def _begin(self, cluster_id: str | None) -> str:
        """Have an image, made of what a broker alone left or of nothing. Returns the cluster id."""
        meta: dict[str, Any] = read_json(self.path / "kohort.json") or {
            "format": FORMAT,
            "cluster_id": cluster_id or fresh_cluster_id(),
            "epoch": -1,
        }
        if meta.get("format") == FORMAT:
            image = ClusterImage(first_epoch=last_epoch(self.path, meta) + 1, configs=read_configs(self.path))
            for topic in read_topics(self.path):
                image = image.created(topic)
            write_durably(self.path / "cluster.json", encode_image(image))
            meta = {"format": CLUSTER_FORMAT, "cluster_id": check_meta(self.path, meta, FORMAT, cluster_id)}
            write_durably(self.path / "kohort.json", json.dumps(meta).encode())
        elif meta.get("format") == OLDER_CLUSTER_FORMAT:
            meta = {**meta, "cluster_id": check_meta(self.path, meta, OLDER_CLUSTER_FORMAT, cluster_id)}
            meta = self._upgrade(meta)
        return check_meta(self.path, meta, CLUSTER_FORMAT, cluster_id)

    def _upgrade(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Raise the format to this version's. Raises DataDirectoryInUse where a broker of version 0.1 works on it."""
        lives = sorted(int(one.stem) for one in (self.path / "brokers").glob("*.lock") if is_held(one))
        if lives:
            numbers = ", ".join(map(str, lives))
            detail = f"is in use by brokers of an older version of kohort ({numbers}); stop all of them first"
            raise DataDirectoryInUse(f"the cluster in {self.path} {detail}")
        log.warning("the cluster in %s is made one of format %d; version 0.1 cannot use it", self.path, CLUSTER_FORMAT)
        meta = {**meta, "format": CLUSTER_FORMAT}
        write_durably(self.path / "kohort.json", json.dumps(meta).encode())
        # A broker of 0.1 that has read the old format a moment ago fails on the image, too.
        write_durably(self.path / "cluster.json", encode_image(read_image(self.path)))
        return meta

    def close(self) -> None:
        """Let go of everything: for the others this broker is dead now."""
        while self._held:
            self._held.pop().close()

    # The image

    def changed(self) -> bool:
        """Whether the image is another than the one that was read last."""
        return self._identity() != self._seen

    def read(self) -> ClusterImage:
        """The image as it is now. Raises BadDataDirectory."""
        self._seen = self._identity()
        return read_image(self.path)

    def change(self, transition: Transition) -> ClusterImage:
        """Change the image, durably, and return it. What `transition` raises leaves it as it was. Raises OSError."""
        with locked(self.path / "cluster.lock", _PATIENCE_S):
            before = self.read()
            after = transition(before)
            if after is before:
                return before
            after = replace(after, version=before.version + 1)
            write_durably(self.path / "cluster.json", encode_image(after))
            self._seen = self._identity()
            return after

    def _identity(self) -> tuple[int, int]:
        # Every change is another file.
        status = (self.path / "cluster.json").stat()
        return status.st_ino, status.st_mtime_ns

    # Life and death

    def beat(self) -> None:
        """Say that this broker works."""
        one = self.process
        told = f"{one.process_id:>12d} {self.now_ms():>20d} {one.started_at:>20d} {one.namespace} {one.boot_id}\n"
        self._life.write(told.encode())

    def lives(self, node_id: int) -> bool:
        """Whether the process of that broker exists; it may stand still."""
        return is_held(self._life_of(node_id))

    def joining(self, nodes: Container[int]) -> list[int]:
        """Brokers that live and are none of `nodes`: not yet, or not any more."""
        found = [int(path.stem) for path in (self.path / "brokers").glob("*.lock") if path.stem.isdigit()]
        return [node_id for node_id in found if node_id not in nodes and self.lives(node_id)]

    def last_beat(self, node_id: int) -> Beat | None:
        """What that broker last said; None where it said nothing yet."""
        try:
            process_id, at_ms, started_at, namespace, boot_id = self._life_of(node_id).read_text().split()
            return Beat(ProcessIdentity(int(process_id), int(started_at), namespace, boot_id), int(at_ms))
        except (FileNotFoundError, ValueError):
            return None

    def _life_of(self, node_id: int) -> Path:
        return self.path / "brokers" / f"{node_id}.lock"


def read_image(directory: Path) -> ClusterImage:
    """The image of the cluster in that directory, for whoever only looks. Raises BadDataDirectory, OSError."""
    path = directory / "cluster.json"
    try:
        return decode_image(path.read_bytes())
    except ValueError as error:
        raise BadDataDirectory(f"{path} is damaged: {error}") from None


_NO_LOCKS = frozenset({errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS})
