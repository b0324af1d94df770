"""Rebalances, their causes as far as the log proves them, what they moved, and the groups that do little else.

The log has no requests. It does not show whether a member left or its session expired, nor whether
a returning member was restarted or had polled too late. So `cause` does not distinguish these.
"""

from kohort.analytics.tables.through import ArrowView

VIEWS: dict[str, str | ArrowView] = {
    "_compared": """
        SELECT *, array_except(ids, coalesce(ids_before, array())) AS came,
          array_except(coalesce(ids_before, array()), ids) AS went,
          transform(members, m -> coalesce(m.instance_id, concat(m.client_id, m.client_host))) AS names,
          transform(members_before, m -> coalesce(m.instance_id, concat(m.client_id, m.client_host))) AS names_before,
          array_sort(array_distinct(flatten(transform(members, m -> m.subscribed)))) AS topics,
          array_sort(array_distinct(flatten(transform(members_before, m -> m.subscribed)))) AS topics_before,
          aggregate(members, 0, (n, m) -> n + size(m.assigned)) AS partitions,
          aggregate(members_before, 0, (n, m) -> n + size(m.assigned)) AS partitions_before
        FROM _generations""",
    # `missing` counts generations that are not in the log: compacted, or abandoned before an assignment was
    # made.
    "_classic": """
        SELECT group_id, 'classic' AS group_type, position, at, epoch, protocol AS assignor, size(ids) AS members,
          came, went, partitions, greatest(coalesce(epoch - epoch_before - 1, 0), 0) AS missing,
          CASE
            WHEN NOT alive THEN 'group deleted'
            WHEN size(ids) = 0 THEN 'group emptied'
            WHEN ids_before IS NULL AND epoch > 1 THEN 'before the log begins'
            WHEN coalesce(size(ids_before), 0) <= 0 THEN 'first member'
            WHEN size(came) > 0 AND size(went) > 0 AND array_sort(names) = array_sort(names_before) THEN
              if(exists(members, m -> m.instance_id IS NOT NULL AND array_contains(came, m.member_id)),
                'static member returned', 'member came back under a new id')
            WHEN size(came) > 0 AND size(went) > 0 THEN 'members came and went'
            WHEN size(came) > 0 THEN 'member joined'
            WHEN size(went) > 0 THEN 'member left or expired'
            WHEN protocol <> protocol_before THEN 'assignor changed'
            WHEN topics <> topics_before THEN 'subscription changed'
            WHEN partitions > partitions_before AND protocol LIKE '%cooperative%' THEN 'cooperative follow-up'
            WHEN partitions <> partitions_before THEN 'topics changed'
            ELSE 'nobody came or went'
          END AS cause
        FROM _compared""",
    # Changes of members between two group epochs caused the second epoch: their records are before that of
    # the epoch.
    "_evidence": """
        SELECT *, coalesce(count_if(kind = 'epoch') OVER (PARTITION BY group_id ORDER BY position
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS step,
          coalesce(lag(alive) OVER (PARTITION BY group_id, kind, member_id ORDER BY position), false) AS was_alive
        FROM history WHERE kind IN ('epoch', 'member')""",
    "_steps": """
        SELECT group_id, step, max(if(kind = 'epoch', position, NULL)) AS position,
          max(if(kind = 'epoch', at, NULL)) AS at, max(if(kind = 'epoch', epoch, NULL)) AS epoch,
          bool_or(kind = 'epoch' AND NOT alive) AS deleted, max(protocol) AS assignor,
          collect_list(if(kind = 'member' AND alive AND NOT was_alive, member_id, NULL)) AS came,
          collect_list(if(kind = 'member' AND NOT alive AND was_alive, member_id, NULL)) AS went,
          count_if(kind = 'member' AND alive AND was_alive) AS changed
        FROM _evidence GROUP BY group_id, step""",
    "_consumer": """
        SELECT group_id, 'consumer' AS group_type, position, at, epoch, assignor, CAST(members AS INT) AS members,
          came, went, CAST(NULL AS INT) AS partitions, greatest(coalesce(epoch - epoch_before - 1, 0), 0) AS missing,
          CASE
            WHEN deleted THEN 'group deleted'
            WHEN epoch_before IS NULL AND epoch > 1 AND size(came) = 0 THEN 'before the log begins'
            WHEN members = size(came) AND size(came) > 0 THEN 'first member'
            WHEN size(came) > 0 AND size(went) > 0 THEN 'members came and went'
            WHEN size(came) > 0 THEN 'member joined'
            WHEN members = 0 THEN 'group emptied'
            WHEN size(went) > 0 THEN 'member left or expired'
            WHEN changed > 0 THEN 'subscription changed'
            ELSE 'topics changed'
          END AS cause
        FROM (
          SELECT *, sum(size(came) - size(went)) OVER (PARTITION BY group_id ORDER BY step) AS members,
            lag(epoch) OVER (PARTITION BY group_id ORDER BY step) AS epoch_before
          FROM _steps)
        WHERE position IS NOT NULL""",
    # The record of a generation shows what the rebalance moved; in consumer groups, the epoch at which a
    # member gained its partitions does.
    "_costs": """
        SELECT d.group_id, d.group_type, if(d.group_type = 'classic', d.position, d.epoch) AS step,
          count_if(d.moved) AS moved, count(*) AS stopped, sum(d.excess_ms) AS excess_ms,
          max(d.dark_ms) AS longest_dark_ms,
          count_if(d.moved AND f.member_id IS NOT NULL AND t.member_id IS NOT NULL) AS needless
        FROM dark d
        LEFT JOIN memberships f ON d.moved AND d.group_id = f.group_id AND d.previous_owner = f.member_id
          AND f.joined_position < d.position AND coalesce(f.left_position > d.position, true)
        LEFT JOIN memberships t ON d.moved AND d.group_id = t.group_id AND d.owner = t.member_id
          AND t.joined_position < d.position AND coalesce(t.left_position > d.position, true)
          AND t.first_epoch < if(d.group_type = 'classic', d.epoch - 1, d.epoch)
        GROUP BY 1, 2, 3""",
    # `needless`: partitions that moved between two members that were both in the group before and after. If
    # all members have the same subscription, a sticky assignor makes no such move. A member that joined one
    # generation ago may be the reason of a cooperative follow-up, so it does not count. Partitions do not wait
    # while a group has no members.
    "rebalances": """
        SELECT r.*, coalesce(c.moved, 0) AS moved, if(r.cause = 'first member', 0, coalesce(c.stopped, 0)) AS stopped,
          coalesce(c.needless, 0) AS needless, if(r.cause = 'first member', 0, coalesce(c.excess_ms, 0)) AS excess_ms,
          if(r.cause = 'first member', NULL, c.longest_dark_ms) AS longest_dark_ms
        FROM (SELECT * FROM _classic UNION ALL SELECT * FROM _consumer) r
        LEFT JOIN _costs c ON r.group_id = c.group_id AND r.group_type = c.group_type
          AND if(r.group_type = 'classic', r.position, r.epoch) = c.step""",
    # Rebalances in such close succession that the group hardly works, and more of them than a restart of
    # every member causes.
    "thrashing": """
        SELECT group_id, min(at) AS begin_at, max(at) AS end_at, count(*) AS rebalances, sum(moved) AS moved,
          sum(excess_ms) AS excess_ms, mode(cause) AS mostly
        FROM (
          SELECT *, sum(if(at - before <= {burst_ms}, 0, 1)) OVER (PARTITION BY group_id ORDER BY position) AS burst
          FROM (
            SELECT *, lag(at) OVER (PARTITION BY group_id ORDER BY position) AS before FROM rebalances
            WHERE cause <> 'cooperative follow-up'))
        GROUP BY group_id, burst
        HAVING count(*) >= {least_rebalances} AND count(*) > {per_restart} * max(members) + 1""",
}
"""Views by name, in order; those with an underscore are intermediate."""
