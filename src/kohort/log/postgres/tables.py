"""The tables of a cluster in PostgreSQL, and the functions that its brokers call: one round trip each.

Whatever an append needs to be true is checked in its own transaction, under locks that whoever takes its partitions
away must have, too: first the broker's row, then its partitions'. Everybody locks in that order.
"""

FORMAT = 1
CHANNEL = "kohort"
"""Where a new version of the image is told (NOTIFY)."""

FENCED = "KH001"
"""SQLSTATE: the broker was declared dead."""
STALE = "KH002"
"""SQLSTATE: a partition is another's, is at another epoch, or ends elsewhere."""

CREATE = f"""
CREATE SCHEMA kohort;

-- One row: what `kohort.log.cluster.image` is to all brokers.
CREATE TABLE kohort.cluster (
  one boolean PRIMARY KEY DEFAULT true CHECK (one),
  format int NOT NULL,
  cluster_id text NOT NULL,
  version bigint NOT NULL,
  image text NOT NULL
);

-- Who lives. A broker that ended has no row, so it cannot append.
CREATE TABLE kohort.brokers (
  node_id int PRIMARY KEY,
  life uuid NOT NULL,
  lease_until timestamptz NOT NULL,
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

-- Whole record batches, as many as one sync wrote into one segment.
CREATE TABLE kohort.batches (
  topic_id uuid,
  partition int,
  base_offset bigint,
  next_offset bigint NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (topic_id, partition, base_offset)
);
-- Producers compress what is worth it.
ALTER TABLE kohort.batches ALTER COLUMN body SET STORAGE EXTERNAL;

-- Lock what an append is about and move its partitions' ends, or raise.
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

CREATE FUNCTION kohort.append(
  node int, its_life uuid, sync bigint, topics uuid[], numbers int[], epochs int[], bases bigint[], nexts bigint[],
  row_topics uuid[], row_numbers int[], row_bases bigint[], row_nexts bigint[], bodies bytea[]
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  PERFORM kohort.claim(node, its_life, sync, topics, numbers, epochs, bases, nexts);
  INSERT INTO kohort.batches (topic_id, partition, base_offset, next_offset, body)
    SELECT * FROM unnest(row_topics, row_numbers, row_bases, row_nexts, bodies);
END $$;

-- A broker says that it lives. What it gets: whether that is so, the image's version, whose leases have ended.
CREATE FUNCTION kohort.beat(
  node int, its_life uuid, lease_ms int, OUT lives boolean, OUT version bigint, OUT late int[]
) LANGUAGE plpgsql AS $$
BEGIN
  UPDATE kohort.brokers SET lease_until = clock_timestamp() + lease_ms * interval '1 ms'
    WHERE node_id = node AND life = its_life;
  lives := FOUND;
  SELECT c.version INTO version FROM kohort.cluster c;
  SELECT coalesce(array_agg(b.node_id), '{{}}') INTO late FROM kohort.brokers b
    WHERE b.lease_until < clock_timestamp() AND b.node_id <> node;
END $$;
"""
