"""The journal `__kohort_rebalances` as a table: facts that a recorder observed and that the log does not have.

The table has one row per rebalance: its true cause and reason, its duration, and the dark time. The
dark time of a partition lasts from the moment at which a member stopped to the first record that
the next one read. Rows join with `rebalances` by group and generation or epoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation

_MEMBER = "STRUCT<member_id: STRING, client_id: STRING, client_host: STRING, instance_id: STRING>"
_VALUE = (
    "group_id STRING, generation INT, started_at BIGINT, ended_at BIGINT, wall_ms BIGINT, cause STRING,"
    " protocol STRING, follow_up_of INT, moved INT, size INT, came ARRAY<STRING>, went ARRAY<STRING>,"
    f" before ARRAY<{_MEMBER}>, after ARRAY<{_MEMBER}>,"
    " refused_members ARRAY<STRUCT<client_id: STRING>>, held_offsets STRUCT<producer_id: BIGINT>,"
    " triggers ARRAY<STRUCT<cause: STRING, member_id: STRING, reason: STRING>>,"
    " partitions ARRAY<STRUCT<topic: STRING, partition: INT, previous_owner: STRING, owner: STRING,"
    " revoked_at: BIGINT, assigned_at: BIGINT, first_read_at: BIGINT, dark_ms: BIGINT>>"
)
_WAS_EMPTY = "coalesce(cause = 'first member', false)"
"""Whether the group had no members before. Its partitions were not dark: nobody waits for a group that was stopped."""


def journal_rows(records: DataFrame, left_out: Observation | None = None) -> DataFrame:
    """Parse records with the JSON in the column `value`.

    Records that do not belong to the journal are omitted, and counted as `records` in the
    observation.
    """
    from pyspark.sql import functions as f

    found = records.select(f.from_json(f.col("value").cast("string"), _VALUE).alias("record")).select("record.*")
    if left_out is not None:
        found = found.observe(left_out, f.count_if(f.col("group_id").isNull()).alias("records"))
    # The journal also has members that could not join or waited for a transaction; those records are not rebalances.
    rebalances = found.where(
        "group_id IS NOT NULL AND coalesce(size(refused_members), 0) <= 0 AND held_offsets IS NULL"
    ).drop("refused_members", "held_offsets")
    return rebalances.selectExpr(
        "*",
        "triggers[0].reason AS reason",
        f"if({_WAS_EMPTY}, 0L, aggregate(partitions, 0L, (sum, p) -> sum + coalesce(p.dark_ms, 0L))) AS dark_ms",
        f"if({_WAS_EMPTY}, NULL, array_max(transform(partitions, p -> p.dark_ms))) AS longest_dark_ms",
    )
