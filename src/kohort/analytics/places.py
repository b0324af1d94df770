"""Destination of an analysis: a directory on this host, or a URI that Spark's file systems support.

Both are checked before the analysis begins, because it takes minutes and writes its page at the
end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

from kohort.analytics.parquet_writer import file_system
from kohort.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Destination(Protocol):
    """Directory that is created if it does not exist."""

    path: str
    is_remote: bool

    @property
    def is_known_to_arrow(self) -> bool:
        """Whether its files can be listed and written without Spark."""
        ...

    def prepare(self, spark: SparkSession) -> None:
        """Create the directory, and check that files can be written. Raises ConfigError."""
        ...

    def write(self, spark: SparkSession, name: str, content: bytes) -> None:
        """Write a file, replacing an existing one."""
        ...

    def directories(self, spark: SparkSession) -> int:
        """Return the number of directories in it."""
        ...


def place(out: str) -> Destination:
    """Return the destination. Raises ConfigError if `out` is a directory on this host that cannot be written."""
    if out.startswith("file:"):
        return LocalPlace(unquote(urlsplit(out).path))
    return RemotePlace(out.rstrip("/")) if "://" in out else LocalPlace(out)


class LocalPlace:
    """Directory on this host, which executors must see, too."""

    is_remote = False
    is_known_to_arrow = True

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"--out {path} cannot be made: {error.strerror or error}.") from None
        if not os.access(path, os.W_OK | os.X_OK):
            raise ConfigError(f"--out {path}: this user may not write there.")

    def __str__(self) -> str:
        return self.path

    def prepare(self, spark: SparkSession) -> None:
        """Do nothing: the constructor creates the directory."""

    def write(self, spark: SparkSession, name: str, content: bytes) -> None:
        (Path(self.path) / name).write_bytes(content)

    def directories(self, spark: SparkSession) -> int:
        return sum(entry.is_dir() for entry in Path(self.path).iterdir())


class RemotePlace:
    """URI, accessed through Hadoop's file system for its scheme, with which Spark reads and writes tables."""

    is_remote = True

    def __init__(self, uri: str) -> None:
        self.path = uri

    def __str__(self) -> str:
        return self.path

    @property
    def is_known_to_arrow(self) -> bool:
        return file_system(self.path) is not None

    def prepare(self, spark: SparkSession) -> None:
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # it has no types

        probe = "_probe"
        try:
            self.write(spark, probe, b"")
            files, path = self._opened(spark, probe)
            files.delete(path, False)
        except Py4JJavaError as error:
            java: Any = error.java_exception
            raise ConfigError(
                f"--out {self.path}: Spark cannot write there: {java.toString()}. Its file system needs its jar, as by"
                " spark-submit --packages, and its credentials; or give a directory."
            ) from None

    def write(self, spark: SparkSession, name: str, content: bytes) -> None:
        files, path = self._opened(spark, name)
        stream = files.create(path, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def directories(self, spark: SparkSession) -> int:
        files, path = self._opened(spark, "")
        return sum(bool(entry.isDirectory()) for entry in files.listStatus(path))

    def _opened(self, spark: SparkSession, name: str) -> tuple[Any, Any]:
        """Return Hadoop's file system, and the path of that name."""
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        path = jvm.org.apache.hadoop.fs.Path(f"{self.path}/{name}" if name else self.path)
        return path.getFileSystem(session.sessionState().newHadoopConf()), path
