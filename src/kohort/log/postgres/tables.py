"""Tables of a cluster in PostgreSQL, and the functions that its brokers call, one round trip each.

The preconditions of an append are checked in its own transaction. It holds the locks that a change
of leadership requires, too: first the broker's row, then the rows of its partitions. All
transactions lock in that order.
"""

FORMAT = 3
CHANNEL = "kohort"
"""Channel on which new versions of the image are announced (NOTIFY)."""

FENCED = "KH001"
"""SQLSTATE: the broker was declared dead."""
STALE = "KH002"
"""SQLSTATE: a partition has another leader, another epoch or another end offset."""
NO_DRAWER = "23514"
"""SQLSTATE (check_violation): no table exists yet for rows that expire at that time."""

_TABLES = """
CREATE SCHEMA kohort;

-- One row: the image that all brokers share (`kohort.log.cluster.image`).
CREATE TABLE kohort.cluster (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  format int NOT NULL,
  cluster_id text NOT NULL,
  version bigint NOT NULL,
  image text NOT NULL
);

-- Live brokers. A broker that ended has no row, so it cannot append.
CREATE TABLE kohort.brokers (
  node_id int PRIMARY KEY,
  life uuid NOT NULL,
  last_sync bigint NOT NULL DEFAULT 0
);

CREATE TABLE kohort.partitions (
  topic_id uuid,
  partition int,
  node_id int NOT NULL,
  epoch int NOT NULL,
  start_offset bigint NOT NULL DEFAULT 0,
  end_offset bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (topic_id, partition)
) WITH (fillfactor = 50);
"""

_LEASES = """
-- Time until which each broker's lease is valid. Not in the brokers' rows, which appends lock: a lease must not wait
-- for a large append.
CREATE TABLE kohort.leases (
  node_id int PRIMARY KEY,
  life uuid NOT NULL,
  until timestamptz NOT NULL
) WITH (fillfactor = 50);
"""

_BATCHES = """
-- Record batches; a row has the batches that one sync wrote into one segment. The table is partitioned by the hour
-- since 1970 at which the rows expire (`time_partitions.py`), or 0 for rows that do not.
CREATE TABLE kohort.batches (
  topic_id uuid,
  partition int,
  base_offset bigint,
  next_offset bigint NOT NULL,
  body bytea NOT NULL,
  drawer int,
  PRIMARY KEY (topic_id, partition, base_offset, drawer)
) PARTITION BY LIST (drawer);
-- Not compressed here: producers compress.
ALTER TABLE kohort.batches ALTER COLUMN body SET STORAGE EXTERNAL;
"""

_KEPT = """
CREATE TABLE kohort.batches_kept PARTITION OF kohort.batches FOR VALUES IN (0) WITH (toast_tuple_target = 8160);
"""

_FUNCTIONS = f"""
-- Lock the broker and the partitions of an append and move the partitions' ends, or raise.
CREATE FUNCTION kohort.claim(
  node int, its_life uuid, sync bigint, topics uuid[], numbers int[], epochs int[], bases bigint[], nexts bigint[]
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE moved int;
BEGIN
  UPDATE kohort.brokers SET last_sync = sync WHERE node_id = node AND life = its_life;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'broker % was declared dead', node USING ERRCODE = '{FENCED}';
  END IF;
  UPDATE kohort.partitions AS p SET end_offset = a.next
    FROM unnest(topics, numbers, epochs, bases, nexts) AS a(topic, number, epoch, base, next)
    WHERE p.topic_id = a.topic AND p.partition = a.number
      AND p.node_id = node AND p.epoch = a.epoch AND p.end_offset = a.base;
  GET DIAGNOSTICS moved = ROW_COUNT;
  IF moved <> cardinality(topics) THEN
    RAISE EXCEPTION 'broker % leads only % of % partitions', node, moved, cardinality(topics)
      USING ERRCODE = '{STALE}';
  END IF;
END $$;

-- The table partition for rows written now; their segment may grow for that many more hours.
CREATE FUNCTION kohort.drawer(retention_ms bigint, hours int) RETURNS int LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN hours = 0 THEN 0
    ELSE (floor((extract(epoch FROM now()) * 1000 + retention_ms) / 3600000 / nullif(hours, 0))::int + 2) * hours END
$$;

-- Create that table partition. Appends and reads do not wait for it, because attaching a table takes a weak lock.
CREATE FUNCTION kohort.add_drawer(hour int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE name text := 'batches_' || hour;
BEGIN
  IF hour = 0 OR to_regclass('kohort.' || name) IS NOT NULL THEN RETURN; END IF;
  PERFORM pg_advisory_xact_lock(hashtext('kohort.' || name));
  IF to_regclass('kohort.' || name) IS NOT NULL THEN RETURN; END IF;
  EXECUTE format('CREATE TABLE kohort.%I (LIKE kohort.batches INCLUDING ALL) WITH (toast_tuple_target = 8160)', name);
  EXECUTE format('ALTER TABLE kohort.batches ATTACH PARTITION kohort.%I FOR VALUES IN (%s)', name, hour);
END $$;

CREATE FUNCTION kohort.append(
  node int, its_life uuid, sync bigint, topics uuid[], numbers int[], epochs int[], bases bigint[], nexts bigint[],
  row_topics uuid[], row_numbers int[], row_bases bigint[], row_nexts bigint[], bodies bytea[],
  retentions bigint[], hours int[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM kohort.claim(node, its_life, sync, topics, numbers, epochs, bases, nexts);
  INSERT INTO kohort.batches (topic_id, partition, base_offset, next_offset, body, drawer)
    SELECT topic, number, base, next, body, kohort.drawer(retention, width)
      FROM unnest(row_topics, row_numbers, row_bases, row_nexts, bodies, retentions, hours)
      AS r(topic, number, base, next, body, retention, width);
END $$;

-- Renew a broker's lease. Returns whether it was valid, the image's version, the brokers whose leases have expired, and
-- the milliseconds until the next lease of another broker expires.
CREATE FUNCTION kohort.beat(
  node int, its_life uuid, lease_ms int, OUT lives boolean, OUT version bigint, OUT late int[], OUT next_ms int
) LANGUAGE plpgsql AS $$
DECLARE at timestamptz := clock_timestamp();
BEGIN
  UPDATE kohort.leases SET until = at + lease_ms * interval '1 ms' WHERE node_id = node AND life = its_life;
  lives := FOUND;
  SELECT c.version INTO version FROM kohort.cluster c;
  SELECT coalesce(array_agg(l.node_id) FILTER (WHERE l.until < at), '{{}}'),
         ceil(extract(epoch FROM min(l.until) FILTER (WHERE l.until >= at) - at) * 1000)
    INTO late, next_ms FROM kohort.leases l WHERE l.node_id <> node;
END $$;
"""

CREATE = _TABLES + _LEASES + _BATCHES + _KEPT + _FUNCTIONS

UPGRADES = {
    1: f"""
{_LEASES}
INSERT INTO kohort.leases SELECT node_id, life, lease_until FROM kohort.brokers;
ALTER TABLE kohort.brokers DROP COLUMN lease_until;
ALTER TABLE kohort.batches RENAME TO batches_kept;
ALTER TABLE kohort.batches_kept DROP CONSTRAINT batches_pkey;
ALTER TABLE kohort.batches_kept ADD COLUMN drawer int DEFAULT 0;
ALTER TABLE kohort.batches_kept ALTER COLUMN drawer DROP DEFAULT;
{_BATCHES}
ALTER TABLE kohort.batches_kept ADD PRIMARY KEY (topic_id, partition, base_offset, drawer);
ALTER TABLE kohort.batches ATTACH PARTITION kohort.batches_kept FOR VALUES IN (0);
DROP FUNCTION kohort.append, kohort.claim, kohort.beat;
{_FUNCTIONS}
""",
    2: "",  # the tables are the same; the image has replicas, which version 0.1 would drop
}
"""Statements that upgrade the tables from an older format to the next one. No broker of that format may be running."""

LIVES = {
    1: "SELECT node_id FROM kohort.brokers WHERE lease_until > clock_timestamp() ORDER BY node_id",
    2: "SELECT node_id FROM kohort.leases WHERE until > clock_timestamp() ORDER BY node_id",
}
"""Queries for the running brokers of each older format."""
