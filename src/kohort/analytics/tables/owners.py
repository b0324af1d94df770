"""Who had which partition, whom it went to, and how long nobody committed meanwhile."""

VIEWS = {
    "_topic_names": "SELECT DISTINCT topic_id, topic FROM history WHERE kind = 'topic'",
    # A member's partitions against those that it had before: each that it took, or had to stop and take again.
    "_changes": """
        SELECT group_id, group_type, position, at, epoch, member_id, instance_id,
          explode(if(eager, assigned, array_except(assigned, before))) AS held
        FROM (
          SELECT *, coalesce(lag(assigned) OVER (PARTITION BY group_id, member_id ORDER BY position), array()) AS before
          FROM _states)""",
    "_taken": """
        SELECT c.* EXCEPT (held), CAST(substring_index(held, '-', -1) AS INT) AS partition,
          coalesce(n.topic, regexp_extract(held, '^(.*)-[0-9]+$', 1)) AS topic
        FROM _changes c LEFT JOIN _topic_names n
          ON c.group_type = 'consumer' AND substring(c.held, 1, 36) = n.topic_id""",
    # A static member that came back under a new id is the same owner.
    "_handovers": """
        SELECT group_id, group_type, position, at, epoch, topic, partition, previous_owner, member_id AS owner,
          name_before IS NOT NULL AND name_before <> coalesce(instance_id, member_id) AS moved
        FROM (
          SELECT *, lag(member_id) OVER taken AS previous_owner,
            lag(coalesce(instance_id, member_id)) OVER taken AS name_before
          FROM _taken
          WINDOW taken AS (PARTITION BY group_id, topic, partition ORDER BY position))""",
    "_runs": """
        SELECT group_id, topic, partition, shard, position, last_position, at, last_at, window_at, commits, last_offset
        FROM history WHERE kind = 'commits' AND commits > 0""",
    "_usual": """
        SELECT group_id, topic, partition, (max(last_at) - min(at)) / greatest(sum(commits) - 1, 1) AS usual_ms
        FROM _runs GROUP BY group_id, topic, partition""",
    # Runs end where a record of their group stands, so what lies before a handover and what behind is clear. The second
    # window runs backward: a frame up to the last row would be summed up anew for every row.
    "_around": """
        SELECT * EXCEPT (is_run, run_at, run_last_at) FROM (
          SELECT *, last(run_last_at, true) OVER (PARTITION BY group_id, topic, partition ORDER BY position
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS last_commit_at,
            last(run_at, true) OVER (PARTITION BY group_id, topic, partition ORDER BY position DESC
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS first_commit_at
          FROM (
            SELECT *, false AS is_run, CAST(NULL AS BIGINT) AS run_at, CAST(NULL AS BIGINT) AS run_last_at
            FROM _handovers WHERE previous_owner IS NOT NULL
            UNION ALL
            SELECT group_id, NULL, position, NULL, NULL, topic, partition, NULL, NULL, NULL, true, at, last_at
            FROM _runs))
        WHERE NOT is_run""",
    # `dark_ms` is what lies between two commits; `excess_ms` leaves out the time that lies between any two, and is the
    # first handover's where several fall between the same two commits, so that sums count no time twice.
    "dark": """
        SELECT a.*, a.first_commit_at - a.last_commit_at AS dark_ms,
          CAST(if(a.last_commit_at = lag(a.last_commit_at) OVER (
              PARTITION BY a.group_id, a.topic, a.partition ORDER BY a.position), 0,
            greatest(a.first_commit_at - a.last_commit_at - u.usual_ms, 0)) AS BIGINT) AS excess_ms
        FROM _around a LEFT JOIN _usual u
          ON a.group_id = u.group_id AND a.topic = u.topic AND a.partition = u.partition""",
    "moves": """
        SELECT group_id, group_type, topic, partition, position, epoch, at, previous_owner AS from_member,
          owner AS to_member, last_commit_at, first_commit_at, dark_ms, excess_ms
        FROM dark WHERE moved""",
}
"""By name, in order; those with an underscore only lead to the others."""
