"""The same tables from the journal alone, which brokers with a recorder write at the end of each rebalance.

The journal has causes, and the times at which members stopped and resumed, in milliseconds. It has
no commits, so there is no lag and no rate. If both are available, the tables are computed from
`__consumer_offsets`, and `journal` is an additional table.
"""

from kohort.analytics.tables import members, owners, rebalancing
from kohort.analytics.tables.through import ArrowView

VIEWS: dict[str, str | ArrowView] = {
    # A member in the first record was there before, or joined with it: `came` distinguishes the two.
    "_seen": """
        SELECT group_id, generation, ended_at AS at, member.*, true AS there,
          array_contains(came, member.member_id) AS came
        FROM journal LATERAL VIEW explode(after) AS member
        UNION ALL
        SELECT group_id, generation, ended_at, member.*, false, false
        FROM journal LATERAL VIEW explode(filter(before, m -> array_contains(went, m.member_id))) AS member""",
    "memberships": """
        SELECT group_id, CAST(NULL AS STRING) AS group_type, member_id, max(instance_id) AS instance_id,
          max(client_id) AS client_id, max(client_host) AS client_host, min(if(there, at, NULL)) AS joined_at,
          min(if(there, NULL, at)) AS left_at, CAST(NULL AS BIGINT) AS joined_position,
          CAST(NULL AS BIGINT) AS left_position, min(if(there, generation, NULL)) AS first_epoch,
          max(if(there, generation, NULL)) AS last_epoch, CAST(NULL AS INT) AS most_partitions
        FROM _seen GROUP BY group_id, member_id HAVING joined_at IS NOT NULL""",
    **{name: members.VIEWS[name] for name in ("_comings", "_returns", "flapping")},
    # A pause that was not over when the record was written has no length.
    "dark": """
        SELECT group_id, CAST(NULL AS STRING) AS group_type, CAST(generation AS BIGINT) AS position,
          coalesce(p.assigned_at, ended_at) AS at, generation AS epoch, p.topic, p.partition, p.previous_owner, p.owner,
          coalesce(p.previous_owner <> p.owner, false) AS moved, p.revoked_at AS last_commit_at,
          p.first_read_at AS first_commit_at, if(_was_empty, NULL, p.dark_ms) AS dark_ms,
          if(_was_empty, 0L, coalesce(p.dark_ms, 0L)) AS excess_ms
        FROM (SELECT *, coalesce(cause = 'first member', false) AS _was_empty FROM journal)
        LATERAL VIEW explode(partitions) AS p
        WHERE p.previous_owner IS NOT NULL AND p.owner IS NOT NULL""",
    "moves": owners.VIEWS["moves"],
    # A group that was deleted begins with generation 1 again, so these are not joined by generation.
    "rebalances": """
        SELECT j.group_id, CAST(NULL AS STRING) AS group_type, CAST(j.generation AS BIGINT) AS position,
          j.ended_at AS at, j.generation AS epoch, j.protocol AS assignor, coalesce(j.size, size(j.after)) AS members,
          j.came, j.went, CAST(NULL AS INT) AS partitions,
          greatest(coalesce(j.generation - lag(j.generation) OVER (PARTITION BY j.group_id ORDER BY j.ended_at) - 1, 0),
            0) AS missing,
          if(j.follow_up_of IS NOT NULL, 'cooperative follow-up', coalesce(j.cause, 'unknown')) AS cause,
          CAST(size(filter(_changes, p -> coalesce(p.previous_owner <> p.owner, false))) AS BIGINT) AS moved,
          CAST(size(_changes) AS BIGINT) AS stopped, 0L AS needless,
          coalesce(j.dark_ms, 0L) AS excess_ms, j.longest_dark_ms
        FROM (
          SELECT *, filter(coalesce(partitions, array()), p -> p.previous_owner IS NOT NULL AND p.owner IS NOT NULL)
            AS _changes
          FROM journal) j""",
    "thrashing": rebalancing.VIEWS["thrashing"],
    # Rows that the page counts.
    "_history": """
        SELECT 'commits' AS kind, group_id, topic, partition, at, at AS last_at, 0L AS commits,
          CAST(NULL AS INT) AS shard, CAST(NULL AS BIGINT) AS position FROM dark
        UNION ALL
        SELECT 'journal', group_id, NULL, NULL, coalesce(started_at, ended_at), ended_at, 0L, NULL, NULL
        FROM journal""",
}
"""Views by name, in order; those with an underscore are intermediate."""
