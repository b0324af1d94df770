"""Stores of tables: plain Parquet, or tables of a lake whose commits refer to the files that the tasks wrote.

In each format, tasks write Parquet files in parallel: Spark writes its own rows, and Arrow
functions write theirs in Arrow. For Delta and Iceberg the files are written to a directory of this
run, and one commit of the driver makes them the table's content. Readers see the previous run or
this one, never a part of it, and earlier runs remain readable as earlier versions.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kohort.analytics.arrow_functions import Mapped
from kohort.analytics.parquet_writer import file_system, write_parquet
from kohort.errors import KohortError, install_extra
from kohort.model import Millis

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyspark.sql import DataFrame

NAMESPACE = "kohort"
"""Namespace of Iceberg tables in their catalog."""


class Format(StrEnum):
    """Format of the tables."""

    PARQUET = "parquet"
    DELTA = "delta"
    ICEBERG = "iceberg"


class Store(Protocol):
    """Store that keeps each table under its name, replacing that of an earlier run. Two threads may use it at once."""

    def keep(self, made: DataFrame | Mapped, name: str, partition_by: str | None = None) -> DataFrame:
        """Compute the rows once and store them. Return the same rows, read back."""
        ...


def store(form: Format, out: str) -> Store:
    """Return a store for tables below that directory or URI. Raises KohortError if the format's package is missing."""
    out = out if "://" in out else str(Path(out).absolute())
    try:
        match form:
            case Format.PARQUET:
                return ParquetStore(out)
            case Format.DELTA:
                import deltalake  # noqa: F401

                return DeltaStore(out)
            case Format.ICEBERG:
                return IcebergStore(out, local_catalog(out))
    except ImportError as missing:
        raise KohortError(f"--format {form} needs {missing.name}: {install_extra(form)}.") from missing


class ParquetStore:
    """Store with a directory of Parquet files for each table."""

    def __init__(self, out: str) -> None:
        self._out = out

    def keep(self, made: DataFrame | Mapped, name: str, partition_by: str | None = None) -> DataFrame:
        return _write(made, f"{self._out}/{name}", partition_by)


class DeltaStore:
    """Store with a Delta table for each table, in a directory of its name; an earlier run is an earlier version."""

    def __init__(self, out: str) -> None:
        self._out = out

    def keep(self, made: DataFrame | Mapped, name: str, partition_by: str | None = None) -> DataFrame:
        from deltalake import DeltaTable, Schema
        from deltalake.exceptions import TableNotFoundError
        from deltalake.transaction import AddAction, create_table_with_add_actions
        from pyspark.sql.pandas.types import to_arrow_schema

        table, run = f"{self._out}/{name}", _fresh()
        read = _write(made, f"{table}/{run}", partition_by)
        added = [
            AddAction(
                f"{run}/{info.path}", info.size, info.partition, info.at, True, json.dumps({"numRecords": info.rows})
            )
            for info in _files(f"{table}/{run}")
        ]
        schema = Schema.from_arrow(to_arrow_schema(read.schema))
        columns = [partition_by] if partition_by else []
        try:
            known = DeltaTable(table)
        except TableNotFoundError:
            create_table_with_add_actions(table, schema, added, partition_by=columns)
        else:
            known.create_write_transaction([*added], "overwrite", schema, columns)
        return read


class IcebergStore:
    """Store with an Iceberg table for each table, in the namespace `kohort` of a catalog.

    An earlier run is an earlier snapshot. `partition_by` is ignored: Iceberg adds files by their
    content, and the name of a directory is not part of it.
    """

    def __init__(self, out: str, catalog: Catalog) -> None:
        self._out = out
        self._catalog = catalog
        self._committing = threading.Lock()  # a catalog must not be used by two threads

    def keep(self, made: DataFrame | Mapped, name: str, partition_by: str | None = None) -> DataFrame:
        from pyspark.sql.pandas.types import to_arrow_schema

        location = f"{self._out}/{name}"
        target = f"{location}/{_fresh()}"
        read = _write(made, target, None)
        schema = to_arrow_schema(read.schema)
        files = [f"{target}/{info.path}" for info in _files(target)]
        with self._committing:
            self._commit(name, schema, location, files)
        return read

    def _commit(self, name: str, schema: pa.Schema, location: str, files: list[str]) -> None:
        self._catalog.create_namespace_if_not_exists(NAMESPACE)
        table = self._catalog.create_table_if_not_exists(f"{NAMESPACE}.{name}", schema, location)
        with table.transaction() as transaction:
            with transaction.update_schema() as changed:
                changed.union_by_name(schema)
            if table.current_snapshot() is not None:
                transaction.delete("True")
            transaction.add_files(files)


def local_catalog(out: str) -> Catalog:
    """Return a catalog in a file beside the tables, which PyIceberg opens with `SqlCatalog`."""
    from pyiceberg.catalog.sql import SqlCatalog

    Path(out).mkdir(parents=True, exist_ok=True)
    return SqlCatalog(NAMESPACE, uri=f"sqlite:///{out}/iceberg.db", warehouse=f"file://{Path(out).absolute()}")


@dataclass(frozen=True, slots=True)
class _File:
    """File that one of the tasks wrote; the path is relative to the run's directory."""

    path: str
    size: int
    at: Millis
    rows: int
    partition: Mapping[str, str]


def _fresh() -> str:
    return f"run-{uuid.uuid4().hex}"


def _write(made: DataFrame | Mapped, target: str, partition_by: str | None) -> DataFrame:
    """Compute the rows and write them. Return the same rows, read back.

    The schema is passed to the reader: a partition without rows has no directory, and a frame
    without rows may have no file.
    """
    if isinstance(made, Mapped) and file_system(target) is not None:
        return write_parquet(made, target, partition_by)
    frame = made.rows() if isinstance(made, Mapped) else made
    writer = frame.write.mode("overwrite")
    (writer.partitionBy(partition_by) if partition_by else writer).parquet(target)
    return frame.sparkSession.read.schema(frame.schema).parquet(target)


def _files(directory: str) -> list[_File]:
    """Return the Parquet files below a directory, on any file system that Arrow supports."""
    files, home = pafs.FileSystem.from_uri(directory) if "://" in directory else (pafs.LocalFileSystem(), directory)
    found = []
    for info in files.get_file_info(pafs.FileSelector(home, recursive=True)):
        if info.extension == "parquet" and info.is_file:
            path = info.path[len(home) :].lstrip("/")
            folders = path.split("/")[:-1]
            with files.open_input_file(info.path) as file:
                rows = pq.read_metadata(file).num_rows
            partition = dict(folder.split("=", 1) for folder in folders)
            found.append(_File(path, info.size, (info.mtime_ns or 0) // 1_000_000, rows, partition))
    return found
