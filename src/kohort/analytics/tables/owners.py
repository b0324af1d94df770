"""Owners of partitions over time, handovers, and the time without commits around them."""

from kohort.analytics import timelines
from kohort.analytics.tables.through import ArrowView

VIEWS: dict[str, str | ArrowView] = {
    "_topic_names": "SELECT DISTINCT topic_id, topic FROM history WHERE kind = 'topic'",
    # Comparison of a member's partitions with its previous ones: those that it gained, or had to stop and
    # gained again.
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
    # A static member that returned under a new id is the same owner.
    "_handovers": """
        SELECT group_id, group_type, position, at, epoch, topic, partition, previous_owner, member_id AS owner,
          name_before IS NOT NULL AND name_before <> coalesce(instance_id, member_id) AS moved
        FROM (
          SELECT *, lag(member_id) OVER taken AS previous_owner,
            lag(coalesce(instance_id, member_id)) OVER taken AS name_before
          FROM _taken
          WINDOW taken AS (PARTITION BY group_id, topic, partition ORDER BY position))""",
    "dark": ArrowView(
        """
        SELECT group_id, group_type, position, at, epoch, topic, partition, previous_owner, owner, moved,
          0L AS last_at, 0L AS commits
        FROM _handovers WHERE previous_owner IS NOT NULL
        UNION ALL
        SELECT group_id, NULL, position, at, NULL, topic, partition, NULL, NULL, NULL, last_at, commits
        FROM _runs WHERE outermost
        UNION ALL
        SELECT group_id, NULL, -1L, min(at), NULL, topic, partition, NULL, NULL, NULL, max(last_at), sum(commits)
        FROM _runs GROUP BY group_id, topic, partition""",
        by=("topic", "partition"),
        function=timelines.dark,
        schema=timelines.DARK_DDL,
    ),
    "moves": """
        SELECT group_id, group_type, topic, partition, position, epoch, at, previous_owner AS from_member,
          owner AS to_member, last_commit_at, first_commit_at, dark_ms, excess_ms
        FROM dark WHERE moved""",
}
"""Views by name, in order; those with an underscore are intermediate."""
