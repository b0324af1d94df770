"""Members over time, in both protocols, and members that leave and return repeatedly."""

from kohort.analytics.tables.through import ArrowView

VIEWS: dict[str, str | ArrowView] = {
    # The record of a classic group has all members, so members that left are found by comparison with the
    # previous record.
    "_generations": """
        SELECT group_id, shard, position, at, epoch, protocol, leader_id, members, alive,
          transform(members, m -> m.member_id) AS ids,
          lag(transform(members, m -> m.member_id)) OVER later AS ids_before,
          lag(members) OVER later AS members_before,
          lag(protocol) OVER later AS protocol_before,
          lag(epoch) OVER later AS epoch_before
        FROM history WHERE kind = 'generation'
        WINDOW later AS (PARTITION BY group_id ORDER BY position)""",
    # Assignment of each member over time: one row per member and record that concerns it. In an eager group
    # all members stop at every generation, including those whose assignment does not change.
    "_states": """
        SELECT group_id, 'classic' AS group_type, position, at, epoch, member.member_id, member.instance_id,
          member.client_id, member.client_host, member.assigned, true AS alive,
          NOT (protocol LIKE '%cooperative%' OR protocol = 'stream') AND epoch > epoch_before AS eager
        FROM _generations LATERAL VIEW explode(members) AS member
        UNION ALL
        SELECT group_id, 'classic', position, at, epoch, member_id, NULL, NULL, NULL, array(), false, false
        FROM _generations LATERAL VIEW explode(array_except(ids_before, ids)) AS member_id
        UNION ALL
        SELECT h.group_id, 'consumer', h.position, h.at, h.epoch, h.member_id, m.instance_id, m.client_id,
          m.client_host, h.assigned, h.alive, false
        FROM history h LEFT JOIN (
          SELECT group_id, member_id, max_by(instance_id, position) AS instance_id,
            max_by(client_id, position) AS client_id, max_by(client_host, position) AS client_host
          FROM history WHERE kind = 'member' AND alive GROUP BY group_id, member_id
        ) m ON h.group_id = m.group_id AND h.member_id = m.member_id
        WHERE h.kind = 'current'""",
    "_lives": """
        SELECT *, count_if(alive AND NOT was_alive) OVER (
          PARTITION BY group_id, member_id ORDER BY position ROWS UNBOUNDED PRECEDING) AS life
        FROM (
          SELECT *, coalesce(lag(alive) OVER (PARTITION BY group_id, member_id ORDER BY position), false) AS was_alive
          FROM _states)""",
    # From the first record that has the member to the first one that does not; without an end it was still
    # there.
    "memberships": """
        SELECT group_id, group_type, member_id, max(instance_id) AS instance_id, max(client_id) AS client_id,
          max(client_host) AS client_host, min(at) AS joined_at, min(if(alive, NULL, at)) AS left_at,
          min(if(alive, position, NULL)) AS joined_position, min(if(alive, NULL, position)) AS left_position,
          min(if(alive, epoch, NULL)) AS first_epoch, max(if(alive, epoch, NULL)) AS last_epoch,
          max(if(alive, size(assigned), NULL)) AS most_partitions
        FROM _lives WHERE life > 0 GROUP BY group_id, group_type, member_id, life""",
    # Members that count as the same although the id changes: by instance id, otherwise by client id and host.
    "_comings": """
        SELECT group_id, coalesce(instance_id, client_id) AS member_name, client_host, joined_at AS at, true AS came
        FROM memberships
        UNION ALL
        SELECT group_id, coalesce(instance_id, client_id), client_host, left_at, false
        FROM memberships WHERE left_at IS NOT NULL""",
    "_returns": """
        SELECT *, at - left_before AS away_ms FROM (
          SELECT *, last(if(came, NULL, at), true) OVER (
            PARTITION BY group_id, member_name, client_host ORDER BY at, came
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS left_before
          FROM _comings)
        WHERE came AND at - left_before <= {return_ms}""",
    # A member flaps if it returns repeatedly; a deployment brings each member back once.
    "flapping": """
        SELECT group_id, member_name, client_host, min(at) AS begin_at, max(at) AS end_at, count(*) AS returns,
          cast(avg(away_ms) AS BIGINT) AS mean_away_ms
        FROM (
          SELECT *, sum(if(at - before <= {episode_ms}, 0, 1)) OVER (
            PARTITION BY group_id, member_name, client_host ORDER BY at) AS episode
          FROM (
            SELECT *, lag(at) OVER (PARTITION BY group_id, member_name, client_host ORDER BY at) AS before
            FROM _returns))
        GROUP BY group_id, member_name, client_host, episode HAVING count(*) >= {least_returns}""",
}
"""Views by name, in order; those with an underscore are intermediate."""
