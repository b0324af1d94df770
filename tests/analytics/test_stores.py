"""Tables in every format, as others read them: by Spark, pyarrow, delta-rs and PyIceberg."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kohort.analytics.arrow_functions import Mapped
from kohort.analytics.stores import NAMESPACE, Format, local_catalog, store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

Read = Callable[[Path], pa.Table]


def by_pyarrow(out: Path) -> pa.Table:
    return pq.read_table(out / "flapping")


def by_delta_rs(out: Path) -> pa.Table:
    from deltalake import DeltaTable

    table = DeltaTable(str(out / "flapping"))
    assert table.metadata().partition_columns == ["kind"]
    return pa.table(table.to_pyarrow_table())


def by_pyiceberg(out: Path) -> pa.Table:
    return local_catalog(str(out)).load_table(f"{NAMESPACE}.flapping").scan().to_arrow()


@pytest.mark.parametrize(
    ("form", "read"), [(Format.PARQUET, by_pyarrow), (Format.DELTA, by_delta_rs), (Format.ICEBERG, by_pyiceberg)]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("in_arrow", [False, True], ids=["rows of Spark", "rows of an Arrow function"])
def test_a_table_is_what_the_last_run_kept(
    spark: SparkSession, tmp_path: Path, form: Format, read: Read, in_arrow: bool
) -> None:
    tables = store(form, str(tmp_path))
    for run in (1, 2):
        frame = spark.sql(f"SELECT id + {run} AS at, 'k' || id % 2 AS kind, array('a', 'b') AS came FROM range(4)")
        schema = "at BIGINT, kind STRING, came ARRAY<STRING>"
        kept = tables.keep(Mapped(frame, iter, schema) if in_arrow else frame, "flapping", "kind")
        expected = [(n + run, f"k{n % 2}", ["a", "b"]) for n in range(4)]
        assert sorted((row.at, row.kind, row.came) for row in kept.collect()) == expected
        found = read(tmp_path).to_pylist()
        assert sorted((row["at"], row["kind"], row["came"]) for row in found) == expected
    # A table without rows is a table.
    nothing = spark.sql("SELECT 1L AS at WHERE false")
    assert tables.keep(Mapped(nothing, iter, "at BIGINT") if in_arrow else nothing, "empty").count() == 0
    if form is Format.DELTA:
        from deltalake import DeltaTable

        earlier = DeltaTable(str(tmp_path / "flapping"), version=0).to_pyarrow_table()
        assert set(earlier["at"].to_pylist()) == {1, 2, 3, 4}
    if form is Format.ICEBERG:
        table = local_catalog(str(tmp_path)).load_table(f"{NAMESPACE}.flapping")
        first = table.history()[0].snapshot_id
        assert set(table.scan(snapshot_id=first).to_arrow()["at"].to_pylist()) == {1, 2, 3, 4}


def test_files_that_a_task_did_not_report_are_not_in_any_table(spark: SparkSession, tmp_path: Path) -> None:
    # As of an attempt that failed, or was slower than another one.
    left = tmp_path / "moves" / "_temporary" / "part-0.parquet"
    left.parent.mkdir(parents=True)
    pq.write_table(pa.table({"at": [99]}), left)
    tables = store(Format.PARQUET, str(tmp_path))
    kept = tables.keep(Mapped(spark.range(3).toDF("at"), iter, "at BIGINT"), "moves")
    assert sorted(row.at for row in kept.collect()) == [0, 1, 2]
    assert not left.parent.exists()
    assert Counter(pq.read_table(tmp_path / "moves")["at"].to_pylist()) == Counter(range(3))
